package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/endpoint/endpointtest"
)

// Identities of the tests.
const (
	publisher = "spiffe://test.invalid/publisher"
	consumer  = "spiffe://test.invalid/consumer"
	other     = "spiffe://test.invalid/other"
)

// patience bounds every wait on a network.
const patience = 5 * time.Minute

// inBubble runs a test in virtual time, over both kinds of pipe.
func inBubble(t *testing.T, test func(t *testing.T, kind string)) {
	for _, kind := range []string{"pipe", "mux"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, kind) })
		})
	}
}

// newStore returns a store in memory, or with a directory one in there.
func newStore(t testing.TB, o sqlstore.Options) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// server is an endpoint that relays.
type server struct {
	t    testing.TB
	kind string
	set  *all.Set
	ep   *endpoint.Endpoint
	*verdicts
	reach *endpointtest.Server
}

// serve starts a relay. Without a Store it gets one in memory, without Jitter
// none.
func serve(t testing.TB, kind string, opts relay.Options) *server {
	t.Helper()
	if opts.Store == nil {
		opts.Store = newStore(t, sqlstore.Options{})
	}
	if opts.Jitter == 0 {
		opts.Jitter = -1
	}
	s := &server{t: t, kind: kind, verdicts: newVerdicts()}
	access := opts.Access
	s.set = newSet(t, all.Options{Access: access, Relay: opts})
	var err error
	s.ep, err = endpoint.New(endpoint.Options{Registry: s.set.Registry, Observer: s.verdicts, Bounds: endpoint.Bounds{Idle: 1000 * time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	s.reach = endpointtest.Serve(t, kind, s.ep)
	return s
}

// stop ends the relay, as a daemon that has no time does.
func (s *server) stop() {
	_ = s.ep.Close()
	s.set.Close()
}

func newSet(t testing.TB, o all.Options) *all.Set {
	t.Helper()
	set, err := all.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	return set
}

// peer is a publisher or a consumer.
type peer struct {
	*endpoint.Session
	t     testing.TB
	set   *all.Set
	ep    *endpoint.Endpoint
	relay *relay.Service
}

func (s *server) dial(identity string) *peer { return s.dialWith(identity, relay.Options{}) }

func (s *server) dialWith(identity string, opts relay.Options) *peer {
	s.t.Helper()
	set := newSet(s.t, all.Options{Relay: opts})
	p := s.attach(identity, set.Registry)
	p.set, p.relay = set, set.Relay
	return p
}

// attach connects a peer that serves what it wants to.
func (s *server) attach(identity string, registry *profiles.Registry) *peer {
	s.t.Helper()
	ep, err := endpoint.New(endpoint.Options{Registry: registry, Bounds: endpoint.Bounds{Idle: 1000 * time.Hour}})
	if err != nil {
		s.t.Fatal(err)
	}
	p := &peer{Session: ep.Attach(s.reach.Connect(identity)), t: s.t, ep: ep}
	s.t.Cleanup(p.leave)
	return p
}

// leave hangs up at once.
func (p *peer) leave() {
	_ = p.ep.Close()
	if p.set != nil {
		p.set.Close()
	}
}

func (p *peer) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

func (p *peer) send(pub relay.Publication) (relay.Receipt, error) {
	ctx, cancel := p.ctx()
	defer cancel()
	return relay.Send(ctx, p.Session, &pub)
}

// publish wants custody to be taken of something new.
func (p *peer) publish(topic, id string) {
	p.t.Helper()
	r, err := p.send(relay.Publication{ID: []byte(id), Topic: topic, Payload: []byte("payload of " + id)})
	if err != nil || r.Duplicate {
		p.t.Fatalf("publish %q: %+v, %v", id, r, err)
	}
}

// wantStatus wants a delivery to stand as said.
func (p *peer) wantStatus(id string, state relay.State, attempts uint32) {
	p.t.Helper()
	ctx, cancel := p.ctx()
	defer cancel()
	got, n, err := relay.Ask(ctx, p.Session, []byte(id))
	if err != nil || got != state || n != attempts {
		p.t.Errorf("status of %q: %q, attempt %d, %v, want %q, attempt %d", id, got, n, err, state, attempts)
	}
}

func (p *peer) consume(topic string, maxInFlight int) *relay.Consumer {
	p.t.Helper()
	ctx, cancel := p.ctx()
	defer cancel()
	c, err := p.relay.Consume(ctx, p.Session, topic, maxInFlight)
	if err != nil {
		p.t.Fatalf("consume %q: %v", topic, err)
	}
	p.t.Cleanup(c.Close)
	return c
}

// receive wants a delivery of this publisher.
func receive(t testing.TB, c *relay.Consumer, id string) *relay.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d, err := c.Recv(ctx)
	if err != nil {
		t.Fatalf("%v, want delivery %q", err, id)
	}
	if string(d.ID) != id || d.Publisher != publisher || string(d.Payload) != "payload of "+id || d.Hops != 1 {
		t.Fatalf("delivery %q of %q, hops %d, payload %q, want %q", d.ID, d.Publisher, d.Hops, d.Payload, id)
	}
	return d
}

// nothing wants no delivery to come, in virtual time.
func nothing(t testing.TB, c *relay.Consumer) {
	t.Helper()
	synctest.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if d, err := c.Recv(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("delivery %v, error %v, want nothing", d, err)
	}
}

func ack(t testing.TB, d *relay.Delivery) {
	t.Helper()
	if err := d.Ack(); err != nil {
		t.Errorf("Ack: %v", err)
	}
}

func nack(t testing.TB, d *relay.Delivery, retryable bool) {
	t.Helper()
	if err := d.Nack(retryable, "busy"); err != nil {
		t.Errorf("Nack: %v", err)
	}
}

func wantPeerError(t testing.TB, err error, code string) {
	t.Helper()
	if fault := (*profiles.PeerError)(nil); !errors.As(err, &fault) || fault.Code != code {
		t.Errorf("error %v, want RELAY_ERR %s", err, code)
	}
}

func wantRPCError(t testing.TB, err error, code string) {
	t.Helper()
	if fault := (*rpc.Error)(nil); !errors.As(err, &fault) || fault.Code != code {
		t.Errorf("error %v, want RPC_ERR %s", err, code)
	}
}

// dead lists all dead deliveries of a peer, page after page.
func (p *peer) dead(params relay.DeadParams) (list []relay.Dead) {
	p.t.Helper()
	for {
		octets, err := json.Marshal(params)
		if err != nil {
			p.t.Fatal(err)
		}
		ctx, cancel := p.ctx()
		result, err := rpc.Call(ctx, p.Session, relay.MethodDead, octets)
		cancel()
		if err != nil {
			p.t.Fatal(err)
		}
		var page relay.DeadPage
		if err := json.Unmarshal(result, &page); err != nil {
			p.t.Fatal(err)
		}
		list = append(list, page.Dead...)
		if params.After = page.Next; page.Next == "" {
			return list
		}
	}
}

// notices collects what a relay says of dead deliveries.
type notices struct {
	mu    sync.Mutex
	list  []relay.Notice
	take  bool
	heard chan struct{} // one slot
}

func newNotices(take bool) *notices { return &notices{take: take, heard: make(chan struct{}, 100)} }

func (n *notices) notice(_ *profiles.Peer, got relay.Notice) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, got)
	n.heard <- struct{}{}
	return n.take
}

func (n *notices) all() []relay.Notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]relay.Notice(nil), n.list...)
}

func (n *notices) wait(t testing.TB) relay.Notice {
	t.Helper()
	select {
	case <-n.heard:
	case <-time.After(patience):
		t.Fatal("no notice came")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.list[len(n.list)-1]
}

// verdicts are what an endpoint said of the messages of this profile.
type verdicts struct {
	endpointtest.Deaf

	mu      sync.Mutex
	codes   map[profiles.Code]int
	details map[string]int
}

func newVerdicts() *verdicts {
	return &verdicts{codes: make(map[profiles.Code]int), details: make(map[string]int)}
}

func (v *verdicts) Verdict(got endpoint.Verdict) {
	if got.ProfileID == relay.ProfileID {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.codes[got.Code]++
		v.details[got.Detail]++
	}
}

func (v *verdicts) wantDetail(t testing.TB, detail string, n int) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.details[detail] != n {
		t.Errorf("%d verdicts of detail %s, want %d: %v", v.details[detail], detail, n, v.details)
	}
}

func patient() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// raw is a consumer of its own making.
type raw struct {
	*peer
	lane   profiles.Lane
	stream *rpc.Stream
	stall  chan struct{} // if it is set, nothing is read before it is closed

	mu       sync.Mutex
	arrivals []arrival
}

// arrival is an attempt as a consumer sees it.
type arrival struct {
	at      time.Time
	env     e1.Envelope
	publish relay.Publish
	w       profiles.Responder
}

// rawConsumer attaches to a topic and only notes what comes.
func (s *server) rawConsumer(identity, topic string, maxInFlight int) *raw {
	s.t.Helper()
	r := new(raw)
	calls, err := rpc.New(rpc.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	table := *s.set.Relay.Profile()
	table.Handler = profiles.HandlerFunc(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
		if r.stall != nil {
			<-r.stall
		}
		held, w, err := req.Hold()
		if err != nil {
			return err
		}
		a := arrival{at: time.Now(), env: held.Clone(), w: w}
		if err := a.publish.Decode(a.env.Payload); err != nil && a.env.MsgType == relay.TypePublish {
			s.t.Errorf("delivery: %v", err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.arrivals = append(r.arrivals, a)
		return nil
	})
	registry, err := profiles.NewRegistry(calls, &table)
	if err != nil {
		s.t.Fatal(err)
	}
	r.peer = s.attach(identity, registry)
	ctx, cancel := patient()
	defer cancel()
	if r.lane, err = r.Open(ctx); err != nil {
		s.t.Fatal(err)
	}
	params, err := json.Marshal(relay.AttachParams{Topic: topic, MaxInFlight: maxInFlight})
	if err != nil {
		s.t.Fatal(err)
	}
	if r.stream, err = rpc.Open(ctx, r.lane, relay.MethodAttach, params); err != nil {
		s.t.Fatal(err)
	}
	if _, err := r.stream.Recv(ctx); err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (r *raw) seen() []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.arrivals)
}

// raw sends a message and returns the answer.
func (p *peer) raw(msgType uint64, payload []byte, ext e1.Extensions) e1.Envelope {
	p.t.Helper()
	ctx, cancel := patient()
	defer cancel()
	call, err := p.Call(ctx, e1.Envelope{ProfileID: relay.ProfileID, MsgType: msgType, Payload: payload, Extensions: ext})
	if err != nil {
		p.t.Fatal(err)
	}
	defer call.Close()
	answer, err := call.Recv(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer.Clone()
}
