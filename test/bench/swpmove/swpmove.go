// Package swpmove moves a file to swpd as an artifact and back, with the package
// that swp-client is made of.
package swpmove

import (
	"context"
	"crypto/sha256"
	"os"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/move"
	"github.com/slimwire/swp/test/bench/swpd"
)

// id is the artifact_id of the file.
const id = "bench"

// NewMover moves files over TLS, to a swpd or along a route to its partner.
func NewMover(addr string, files cert.Files) move.Mover {
	route := swpd.ParseRoute(addr)
	return mover{"swp+tls://" + route.Endpoint(), files}
}

type mover struct {
	addr  string // of the one that keeps the files
	files cert.Files
}

func (m mover) dial(ctx context.Context) (*client.Client, error) {
	return client.Dial(ctx, m.addr, client.Options{
		Partner: true, Identity: client.Identity{Cert: m.files.Cert, Key: m.files.Key, CA: m.files.CA},
	})
}

func (m mover) transfer() *client.Transfer { return &client.Transfer{Connect: m.dial} }

// Upload computes the digest, which goes ahead of the octets, first.
func (m mover) Upload(ctx context.Context, path string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	digest := sha256.New()
	if err := move.Pass(digest, path); err != nil {
		return err
	}
	return m.transfer().Put(ctx, artifact.Upload{
		ArtifactID: id, Size: uint64(info.Size()), Hash: [sha256.Size]byte(digest.Sum(nil)), Octets: file,
	})
}

func (m mover) Download(ctx context.Context, path string) error {
	_, err := m.transfer().GetFile(ctx, client.Fetch{ArtifactID: id}, path)
	return err
}

func (m mover) Clear(ctx context.Context) error {
	c, err := m.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.ForgetArtifact(ctx, id)
	return err
}
