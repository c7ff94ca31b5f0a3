package slip_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/profiles/slip"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// agents are those that a hub knows.
type agents struct {
	mu     sync.Mutex
	on     map[string]profiles.Session
	owners map[string]string
}

func (a *agents) Session(agentID string) (profiles.Session, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok := a.on[agentID]
	return s, ok && s.Context().Err() == nil
}

func (a *agents) Owner(agentID string) (string, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	owner, ok := a.owners[agentID]
	return owner, ok
}

func (a *agents) declare(agentID, identity string, s profiles.Session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.on == nil {
		a.on, a.owners = make(map[string]profiles.Session), make(map[string]string)
	}
	a.on[agentID], a.owners[agentID] = s, identity
}

// partners are agents behind other hubs.
type partners map[string]profiles.Session

func (p partners) Find(_ context.Context, agentID string) (slip.Way, bool) {
	s, ok := p[agentID]
	return slip.Way{Session: s, Onward: func(ctx context.Context, identity string, p profiles.Passage) (context.Context, e1.Extensions, error) {
		return profiles.WithCaller(ctx, identity), p.Append(nil, time.Now()), nil
	}}, ok
}

// kept is a message that a relay has.
type kept struct {
	Identity, Agent, Text string
	MsgID                 string
	Hops                  uint64
}

// box is a relay for one agent.
type box struct {
	agent string
	kept  chan kept
	fault error
}

func (b *box) Keeps(agentID string) bool { return agentID == b.agent }

func (b *box) Keep(_ context.Context, identity, agentID string, msgID, text []byte, hops uint64) error {
	if b.fault != nil {
		return b.fault
	}
	b.kept <- kept{identity, agentID, string(text), string(msgID), hops}
	return nil
}

// hub is a Service that passes messages on.
type hub struct {
	t        testing.TB
	name     string
	registry *profiles.Registry
	agents   agents
	partners partners
	opts     slip.Options
}

func newHub(t testing.TB, name string, change func(*slip.Options)) *hub {
	t.Helper()
	h := &hub{t: t, name: name, partners: make(partners)}
	h.opts = slip.Options{Agents: &h.agents, Partners: h.partners, Numbers: map[uint64]string{0: "coordinator", 1: "planner", 2: "executor"}}
	if change != nil {
		change(&h.opts)
	}
	h.registry = registry(t, service(t, h.opts))
	return h
}

func service(t testing.TB, o slip.Options) *slip.Service {
	t.Helper()
	s, err := slip.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func registry(t testing.TB, s *slip.Service) *profiles.Registry {
	t.Helper()
	r, err := profiles.NewRegistry(s.Profile())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// got is a message that an agent got.
type got struct {
	Type    uint64
	Payload string
	Handles []slip.Meaning
}

// returned is a SLIP_ERR that an agent got.
type returned struct{ MsgID, Code string }

// agent is a program on a session to a hub.
type agent struct {
	t       testing.TB
	session *profiletest.Session // to the hub
	hub     *profiletest.Session // its other end
	got     chan got
	errs    chan returned
}

// join connects a program of an identity, which declares agent_ids.
func (h *hub) join(identity string, ids ...string) *agent {
	h.t.Helper()
	a := &agent{t: h.t, got: make(chan got, 64), errs: make(chan returned, 64)}
	s := service(h.t, slip.Options{
		Receive: func(_ profiles.Session, m *slip.Message) error {
			if m.Type == slip.TypeSLIP && m.SLIP.Anchor.Mnemonic == "MetaAbort" {
				return slip.Refuse("not_now", "as it was told")
			}
			a.got <- got{m.Type, string(m.Payload), append([]slip.Meaning(nil), m.Handles...)}
			return nil
		},
		Returned: func(_ profiles.Session, msgID []byte, e *profiles.PeerError) {
			a.errs <- returned{string(msgID), e.Code}
		},
	})
	h.connect(a, identity, s.Profile(), ids)
	return a
}

// attach connects a program of an identity with a profile of its own.
func (h *hub) attach(identity string, p *profiles.Profile, ids ...string) *agent {
	h.t.Helper()
	a := &agent{t: h.t}
	h.connect(a, identity, p, ids)
	return a
}

func (h *hub) connect(a *agent, identity string, p *profiles.Profile, ids []string) {
	h.t.Helper()
	r, err := profiles.NewRegistry(p)
	if err != nil {
		h.t.Fatal(err)
	}
	a.session, a.hub = profiletest.Pair(identity, r, h.name, h.registry, profiletest.SessionOptions{})
	h.t.Cleanup(func() {
		a.session.Close()
		a.session.Wait()
		a.hub.Wait()
	})
	for _, id := range ids {
		h.agents.declare(id, identity, a.hub)
	}
}

// send sends a message and returns its msg_id.
func (a *agent) send(msgType uint64, payload string, handles ...slip.Meaning) string {
	a.t.Helper()
	id, err := slip.Send(a.t.Context(), a.session, msgType, []byte(payload), handles...)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(id)
}

// gets waits for the next message.
func (a *agent) gets() got {
	a.t.Helper()
	return wait(a.t, a.got)
}

// refused waits for the SLIP_ERR to a message and returns its code.
func (a *agent) refused(msgID string) string {
	a.t.Helper()
	e := wait(a.t, a.errs)
	if e.MsgID != msgID {
		a.t.Errorf("a SLIP_ERR for %x, want %x", e.MsgID, msgID)
	}
	return e.Code
}

func wait[T any](t testing.TB, c chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
	}
	return v
}

// verdict is that of the first message that the hub got on a session.
func (a *agent) verdict(i int) profiletest.Verdict {
	a.t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; {
		if v := a.hub.Verdicts(); len(v) > i {
			return v[i]
		}
		select {
		case <-time.After(time.Millisecond):
		case <-a.t.Context().Done():
		}
	}
	a.t.Fatal("no verdict")
	return profiletest.Verdict{}
}

var errStore = errors.New("the store is gone")
