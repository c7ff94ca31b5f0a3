package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/store/archive"
)

// Copy copies everything from the store of a configuration to that of another one, of the same or another
// kind. No process may have either store open, and the second one must not exist.
type Copy struct {
	From, To *config.Config
	Log      io.Writer // for warnings of the stores, as lines of text

	// Progress is called with each piece that is copied, and then Verifying with each piece that is
	// verified. They may be nil.
	Progress, Verifying func(Transferred)
}

// Copied is what a Copy has carried.
type Copied struct {
	Transferred        // Data is that of To
	From        string `json:"from"`
	Digest      string `json:"digest"` // of both stores; see Digested
}

// Digested is the digest of a store: the SHA-256 of records, logs, queues and artifacts without expired
// ones. It does not depend on the kind of the store.
type Digested struct {
	Digest string         `json:"digest"`
	Data   string         `json:"data"` // as in Transferred
	Parts  []archive.Part `json:"parts"`
}

// Run copies, and compares a digest of the copy with the digest of the source. After an error there is
// no copy, or Open refuses it. The time of both stores stands still, so nothing expires before the end.
func (c *Copy) Run(ctx context.Context) (done Copied, err error) {
	if c.same() {
		return done, errors.New("both configurations have the same store")
	}
	at := time.Now()
	transfer := func(of *config.Config, progress func(Transferred)) *Transfer {
		return &Transfer{Config: of, Log: c.Log, Progress: progress, digest: new(archive.Digest), now: func() time.Time { return at }}
	}
	from, to := transfer(c.From, nil), transfer(c.To, c.Progress)
	source, end, err := from.open(ctx)
	if err != nil {
		return done, fmt.Errorf("the source: %w", err)
	}
	defer func() { err = errors.Join(err, end()) }()
	to.verify = func(target *Storage) error {
		found := transfer(c.To, c.Verifying)
		if _, err := target.export(ctx, io.Discard, found); err != nil {
			return err
		}
		return from.equals(found)
	}
	in, out := io.Pipe()
	var exporting sync.WaitGroup
	exporting.Go(func() {
		_, err := source.export(ctx, out, from)
		_ = out.CloseWithError(err)
	})
	done.Transferred, err = to.Import(ctx, in)
	_ = in.CloseWithError(err) // ends the export, if it goes on
	exporting.Wait()
	done.From, done.Digest = from.t.Data, from.digest.Sum()
	return done, err
}

// same reports whether both configurations are known to have one store. If they name it in two ways, its
// lock is in use.
func (c *Copy) same() bool {
	if c.From.Clustered() || c.To.Clustered() {
		return c.From.Store == c.To.Store
	}
	from, err := os.Stat(c.From.Data)
	to, failed := os.Stat(c.To.Data)
	return err == nil && failed == nil && os.SameFile(from, to)
}

// equals returns an error unless two exports have the same content. The counters may have grown: the engine
// of artifacts writes records, too.
func (t *Transfer) equals(found *Transfer) error {
	for i, s := range t.starts {
		if f := found.starts[i]; f.Versions < s.Versions || f.Items < s.Items {
			return fmt.Errorf("the copy differs from the source: its counters are %d and %d, and those of the source %d and %d",
				f.Versions, f.Items, s.Versions, s.Items)
		}
	}
	if t.digest.Sum() == found.digest.Sum() {
		return nil
	}
	return fmt.Errorf("the copy differs from the source in %s", strings.Join(archive.Differences(t.digest.Parts(), found.digest.Parts()), ", "))
}

// Digest returns the digest of the store of the configuration.
func (t *Transfer) Digest(ctx context.Context) (d Digested, err error) {
	t.digest = new(archive.Digest)
	if _, err := t.Export(ctx, io.Discard); err != nil {
		return d, err
	}
	return Digested{Digest: t.digest.Sum(), Data: t.t.Data, Parts: t.digest.Parts()}, nil
}
