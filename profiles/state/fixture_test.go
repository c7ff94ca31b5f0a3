package state_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/endpoint/endpointtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait.
const patience = 5 * time.Minute

// Who puts states.
const (
	alice = "spiffe://test/alice"
	bob   = "spiffe://test/bob"
	carol = "spiffe://test/carol"
)

func open(t testing.TB, o sqlstore.Options) *sqlstore.Store {
	t.Helper()
	engine, err := sqlstore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	return engine
}

// usedBy returns how many octets a store holds, everything included that was
// submitted before.
func usedBy(t testing.TB, engine *sqlstore.Store) int64 {
	t.Helper()
	if err := engine.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	return engine.Stats().Used
}

func newService(t testing.TB, opts state.Options) *state.Service {
	t.Helper()
	s, err := state.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// server is an endpoint that serves states.
type server struct {
	t     testing.TB
	state *state.Service
	ep    *endpoint.Endpoint
	reach *endpointtest.Server
	endpointtest.Deaf

	mu      sync.Mutex
	details map[string]int // of the verdicts on messages of STATE
}

func (s *server) Verdict(v endpoint.Verdict) {
	if v.ProfileID == state.ProfileID {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.details[v.Detail]++
	}
}

func serve(t testing.TB, opts state.Options) *server {
	t.Helper()
	s := &server{t: t, state: newService(t, opts), details: make(map[string]int)}
	registry, err := profiles.NewRegistry(s.state.Profile(), endpointtest.Sync)
	if err != nil {
		t.Fatal(err)
	}
	bounds := endpoint.Bounds{ErrorBudget: 1 << 20}
	if s.ep, err = endpoint.New(endpoint.Options{Registry: registry, Observer: s, Bounds: bounds}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.ep.Close() })
	s.reach = endpointtest.Serve(t, "pipe", s.ep)
	return s
}

// peer is a client of a server.
type peer struct {
	*endpoint.Session
	t testing.TB
}

func (s *server) dial(identity string) *peer {
	s.t.Helper()
	registry, err := profiles.NewRegistry(newService(s.t, state.Options{}).Profile(), endpointtest.Sync)
	if err != nil {
		s.t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: registry})
	if err != nil {
		s.t.Fatal(err)
	}
	p := &peer{Session: ep.Attach(s.reach.Connect(identity)), t: s.t}
	s.t.Cleanup(func() { _ = ep.Close() })
	return p
}

func (p *peer) lane() profiles.Lane {
	p.t.Helper()
	lane, err := p.Open(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = lane.Close() })
	return lane
}

// put puts states, one after the other without waiting.
func (p *peer) put(states ...state.State) (int, error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	return state.PutAll(ctx, p.lane(), endpointtest.CallSync, states...)
}

func (p *peer) mustPut(states ...state.State) {
	p.t.Helper()
	if n, err := p.put(states...); err != nil || n != len(states) {
		p.t.Fatalf("%d of %d states put: %v", n, len(states), err)
	}
}

func (p *peer) get(id state.ID) (*state.State, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	return state.Fetch(ctx, p.Session, id)
}

func (p *peer) delta(base state.ID, delta string, parents ...state.ID) error {
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	return state.AddDelta(ctx, p.lane(), endpointtest.CallSync, base, []byte(delta), parents...)
}

// deltas are those of a state, as an identity reads them.
func (s *server) deltas(identity string, id state.ID) ([]string, error) {
	s.t.Helper()
	list := []string{}
	_, err := s.state.Deltas(s.t.Context(), &profiles.Peer{Identity: identity}, id[:], func(item []byte) error {
		c, err := state.ReadChange(item, id)
		if err == nil {
			list = append(list, string(c.Delta))
		}
		return err
	})
	return list, err
}

// forget has a state forgotten.
func (s *server) forget(identity string, id state.ID) error {
	_, err := s.forgotten(identity, id)
	return err
}

// forgotten is forget, and returns whether the state was there.
func (s *server) forgotten(identity string, id state.ID) (was bool, err error) {
	done := make(chan error, 1)
	s.state.Forget(&profiles.Peer{Identity: identity}, id[:], func(w state.Forgotten, err error) { was = w.State; done <- err })
	err = <-done
	return was, err
}

// of returns a state with its id.
func of(blob string, parents ...state.State) state.State {
	s := state.State{ID: state.IDOf([]byte(blob)), Blob: []byte(blob)}
	for _, p := range parents {
		s.Parents = append(s.Parents, p.ID)
	}
	return s
}

func (s *server) count(detail string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.details[detail]
}

// wantCode wants a STATE_ERR of a code.
func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	if fault := (*profiles.PeerError)(nil); !errors.As(err, &fault) || fault.Code != code {
		t.Errorf("error %v, want STATE_ERR %s", err, code)
	}
}

// rules allow what is in them, as "identity operation id", with * for any id.
type rules map[string]bool

func (r rules) Allowed(identity, profile, operation, name string) bool {
	who := identity + " " + operation + " "
	return profile == "state" && (r[who+"*"] || r[who+name])
}
