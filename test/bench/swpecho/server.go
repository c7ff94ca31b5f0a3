package swpecho

import (
	"context"
	"os"
	"path/filepath"

	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/store/filestore"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/tlsconn"
)

// Listen serves all profiles over TLS and QUIC on the same port, with the packages and
// limits of swpd, and stores its state beside the certificates. It is for measurements
// inside the process, such as profiling and forced garbage collection.
func Listen(ctx context.Context, files cert.Files) (string, error) {
	policy, err := policy(files)
	if err != nil {
		return "", err
	}
	overTLS, err := tlsconn.Listen("127.0.0.1:0", policy, tlsconn.Options{})
	if err != nil {
		return "", err
	}
	addr := overTLS.Addr().String()
	overQUIC, err := quicconn.Listen(addr, policy, quicconn.Options{})
	if err != nil {
		return "", err
	}
	ep, err := newServer(ctx, filepath.Dir(files.CA))
	if err != nil {
		return "", err
	}
	go func() { _ = ep.Serve(ctx, overTLS) }()
	go func() { _ = ep.Serve(ctx, overQUIC) }()
	return addr, nil
}

// newServer keeps its state below dir.
func newServer(ctx context.Context, dir string) (*endpoint.Endpoint, error) {
	dir, err := os.MkdirTemp(dir, "store-")
	if err != nil {
		return nil, err
	}
	state, err := sqlstore.Open(ctx, sqlstore.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	blobs, err := filestore.Open(ctx, filestore.Options{Records: state, Space: "artifact", Dir: filepath.Join(dir, "artifacts")})
	if err != nil {
		return nil, err
	}
	set, err := all.New(all.Options{
		A2A: a2a.Options{Store: state}, Events: events.Options{Store: state}, Artifact: artifact.Options{Store: blobs},
	})
	if err != nil {
		return nil, err
	}
	return endpoint.New(endpoint.Options{
		Registry: set.Registry,
		Bounds:   endpoint.Bounds{Connections: 20_000, ConnectionsPerIdentity: 20_000},
	})
}
