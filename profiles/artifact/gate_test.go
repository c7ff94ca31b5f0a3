package artifact_test

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/store"
)

// gate is a store whose Appends wait while it is closed, and fail as often as it
// is told.
type gate struct {
	store.Blobs
	mu     sync.Mutex
	shut   bool
	queue  []func()
	failed int
}

func newGate(s store.Blobs) *gate { return &gate{Blobs: s} }

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
	for _, f := range g.queue {
		f()
	}
	g.queue = nil
}

// fail has the next n Appends fail.
func (g *gate) fail(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed = n
}

func (g *gate) Append(name string, at, mark uint64, data []byte, done func(bool, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed > 0 {
		g.failed--
		go done(false, store.ErrUnavailable)
		return
	}
	next := func() { g.Blobs.Append(name, at, mark, data, done) }
	if g.shut {
		g.queue = append(g.queue, next)
		return
	}
	next()
}

func asPeerError(err error, to **profiles.PeerError) bool { return errors.As(err, to) }

func list(t testing.TB, s *server, identity string, in artifact.ListParams) (out artifact.ListResult) {
	t.Helper()
	params, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	result, err := s.service.List(t.Context(), &profiles.Peer{Identity: identity}, params)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(result, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
