package events_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/endpoint/endpointtest"
)

// patience bounds every wait on a network.
const patience = 5 * time.Minute

// kinds are the transports that scenarios run over.
var kinds = []string{"pipe", "mux", "tls", "quic"}

// overAll runs a test for each kind of transport.
func overAll(t *testing.T, test func(t *testing.T, kind string)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { test(t, kind) })
	}
}

// server is an endpoint that serves a Bus.
type server struct {
	t    testing.TB
	kind string
	bus  *events.Bus
	ep   *endpoint.Endpoint
	*verdicts
	reach *endpointtest.Server
}

func serve(t testing.TB, kind string, opts events.Options, bounds endpoint.Bounds) *server {
	t.Helper()
	s := &server{t: t, kind: kind, bus: newBus(t, opts), verdicts: newVerdicts()}
	registry, err := profiles.NewRegistry(s.bus.Profile(), endpointtest.Sync)
	if err != nil {
		t.Fatal(err)
	}
	if s.ep, err = endpoint.New(endpoint.Options{Registry: registry, Observer: s.verdicts, Bounds: bounds}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.ep.Close() })
	s.reach = endpointtest.Serve(t, kind, s.ep)
	return s
}

// peer is a client of a server.
type peer struct {
	*endpoint.Session
	ep     *endpoint.Endpoint
	bus    *events.Bus
	shared profiles.Lane
}

func (s *server) dial(identity string) *peer {
	s.t.Helper()
	bus, err := events.New(events.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	registry, err := profiles.NewRegistry(bus.Profile(), endpointtest.Sync)
	if err != nil {
		s.t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: registry})
	if err != nil {
		s.t.Fatal(err)
	}
	p := &peer{Session: ep.Attach(s.reach.Connect(identity)), ep: ep, bus: bus}
	s.t.Cleanup(p.leave)
	return p
}

// leave hangs up at once.
func (p *peer) leave() {
	_ = p.ep.Close()
	p.bus.Close()
}

func (p *peer) publisher(t testing.TB) *events.Publisher {
	t.Helper()
	lane, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return events.NewPublisher(lane, endpointtest.CallSync)
}

// publish publishes events of those ids and waits until they are accepted.
func (p *peer) publish(t testing.TB, ids ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pub := p.publisher(t)
	defer pub.Close()
	for _, id := range ids {
		r := record(id)
		if err := pub.Publish(ctx, &r); err != nil {
			t.Fatal(err)
		}
	}
	if err := pub.Sync(ctx); err != nil {
		t.Fatal(err)
	}
}

func (p *peer) subscribe(t testing.TB, opts events.SubscribeOptions) *events.Subscription {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sub, err := events.Open(ctx, p, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sub.Close)
	return sub
}

// receive wants the events of those ids to come next, and returns the cursor of
// the last.
func receive(t testing.TB, sub *events.Subscription, ids ...string) (cursor uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(ids) > 0 {
		d, err := sub.Recv(ctx)
		if err != nil {
			t.Fatalf("%v, want %v", err, ids)
		}
		for i := range d.Events {
			if len(ids) == 0 || string(d.Events[i].EventID) != ids[0] {
				t.Fatalf("event %s, want %v", d.Events[i].EventID, ids)
			}
			ids = ids[1:]
		}
		cursor = d.Cursor
	}
	return cursor
}

// wantPeerError wants an EVT_ERR of a code.
func wantPeerError(t testing.TB, err error, code string) {
	t.Helper()
	if fault := (*profiles.PeerError)(nil); !errors.As(err, &fault) || fault.Code != code {
		t.Errorf("error %v, want EVT_ERR %s", err, code)
	}
}

// failOpen wants a subscription to be refused.
func (p *peer) failOpen(t testing.TB, opts events.SubscribeOptions, code string) {
	t.Helper()
	sub, err := events.Open(t.Context(), p, opts)
	if err == nil {
		sub.Close()
	}
	wantPeerError(t, err, code)
}

func ids(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint("e", i)
	}
	return list
}

// verdicts are what an endpoint said of the messages of this profile.
type verdicts struct {
	endpointtest.Deaf

	mu      sync.Mutex
	codes   map[profiles.Code]int
	details map[string]int
	closed  []error
	changed chan struct{}
}

func newVerdicts() *verdicts {
	return &verdicts{codes: make(map[profiles.Code]int), details: make(map[string]int), changed: make(chan struct{})}
}

func (v *verdicts) update(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
	close(v.changed)
	v.changed = make(chan struct{})
}

func (v *verdicts) Verdict(got endpoint.Verdict) {
	if got.ProfileID == events.ProfileID {
		v.update(func() {
			v.codes[got.Code]++
			v.details[got.Detail]++
		})
	}
}

func (v *verdicts) Closed(_ *endpoint.Session, cause error) {
	v.update(func() { v.closed = append(v.closed, cause) })
}

// await waits until ok holds.
func (v *verdicts) await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	timeout := time.After(patience)
	for {
		v.mu.Lock()
		done, changed := ok(), v.changed
		v.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("never: %s; codes %v, details %v", what, v.codes, v.details)
		}
	}
}
