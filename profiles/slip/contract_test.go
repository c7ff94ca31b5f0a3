package slip_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/profiles/slip"
)

// sink is a session that takes everything.
type sink struct{ profiles.Session }

func (sink) Send(context.Context, e1.Envelope) error { return nil }
func (sink) Context() context.Context                { return context.Background() }
func (sink) Peer() *profiles.Peer                    { return &profiles.Peer{Identity: "sink"} }

func newProfile(t testing.TB) *profiles.Profile {
	var known agents
	known.declare("planner", "sink", sink{})
	return service(t, slip.Options{Agents: &known, Numbers: map[uint64]string{0: "coordinator", 1: "planner", 2: "nobody"}}).Profile()
}

var contract = []profiletest.Case{
	{Name: "text", Type: slip.TypeNSLIP, Payload: []byte(text)},
	{Name: "text with a handle", Type: slip.TypeNSLIP, Payload: []byte(text), Extensions: e1.AppendExtension(nil, slip.ExtHandle, []byte("k=task:00"))},
	{Name: "text for nobody", Type: slip.TypeNSLIP, Payload: []byte(`@a3|f0|c3|S0|d2|T1#`), Code: profiles.NotFound},
	{Name: "words", Type: slip.TypeSLIP, Payload: []byte(words), Loose: true},
	{Name: "binary", Type: slip.TypeBinary, Payload: []byte(binary), Loose: true},
	{Name: "error", Type: slip.TypeErr, Payload: (&slip.Err{Code: []byte("c"), Message: []byte("m")}).Append(nil)},
}

func TestContract(t *testing.T) { profiletest.Run(t, newProfile, contract...) }

func FuzzServe(f *testing.F) { profiletest.Fuzz(f, newProfile, contract...) }

func TestNothingIsPassedOnWithoutAgents(t *testing.T) {
	h := profiletest.New(t, service(t, slip.Options{}).Profile())
	if err := h.Serve(slip.TypeSLIP, []byte(words)).Wait().Err(); err == nil || err.Detail != "slip_unknown_destination" {
		t.Error(err)
	}
}

// stuck is a session that does not read.
type stuck struct {
	sink
	gone    context.Context
	waiting chan struct{}
}

func (s stuck) Context() context.Context { return s.gone }

func (s stuck) Send(ctx context.Context, _ e1.Envelope) error {
	s.waiting <- struct{}{}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.gone.Done():
		return errors.New("gone")
	}
}

func TestRS05AnAgentThatDoesNotReadHoldsUpNobody(t *testing.T) {
	h := newHub(t, "hub", func(o *slip.Options) { o.WaitingPerAgent = 2; o.Waiting = 4 })
	from, to := h.join("id-a", "coordinator"), h.join("id-b", "executor")
	gone, leave := context.WithCancel(t.Context())
	defer leave()
	slow := stuck{gone: gone, waiting: make(chan struct{}, 1)}
	h.agents.declare("planner", "id-c", slow)
	from.send(slip.TypeSLIP, words)
	wait(t, slow.waiting)
	from.send(slip.TypeSLIP, words)
	if code := from.refused(from.send(slip.TypeSLIP, words)); code != "RATE_LIMIT_EXCEEDED" {
		t.Error(code)
	}
	if v := from.verdict(0); v.Code != profiles.RateLimitExceeded || v.Err.Detail != "waiting_behind" || !v.Err.Pace {
		t.Errorf("%+v", v)
	}
	from.send(slip.TypeSLIP, "SLIP v1 coordinator executor MetaAck")
	to.gets()
	leave() // and what waited is for an agent that is away
	for range 2 {
		if e := wait(t, from.errs); e.Code != slip.CodeUnknownDestination {
			t.Errorf("%+v", e)
		}
	}
}

func TestRS08WhatWaitsIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*slip.Options)
		third  string
	}{
		"messages": {func(o *slip.Options) { o.Waiting = 2 }, "waiting_full"},
		"octets":   {func(o *slip.Options) { o.WaitingBytes = 2*(len(words)+74)*8/7 + 1 }, "waiting_full"}, // one identity has seven eighths
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, "hub", test.change)
			from := h.join("id-a", "coordinator")
			gone, leave := context.WithCancel(t.Context())
			defer leave()
			slow := stuck{gone: gone, waiting: make(chan struct{}, 1)}
			h.agents.declare("planner", "id-c", slow)
			from.send(slip.TypeSLIP, words)
			wait(t, slow.waiting)
			from.send(slip.TypeSLIP, words)
			from.refused(from.send(slip.TypeSLIP, words))
			if v := from.verdict(0); v.Err == nil || v.Err.Detail != test.third {
				t.Errorf("%+v", v)
			}
		})
	}
}

func TestRS27MessagesToAgentsThatDoNotReadLeavePlacesForAnother(t *testing.T) {
	fairtest.Places(t, "slip: messages on their way", "places of 16", func(t *testing.T) (func(string) bool, func(string)) {
		var known agents
		s := service(t, slip.Options{Agents: &known, Waiting: 16})
		as := map[string]*profiletest.Harness{
			fairtest.Alice: profiletest.NewAs(t, s.Profile(), fairtest.Alice), fairtest.Mallory: profiletest.NewAs(t, s.Profile(), fairtest.Mallory),
		}
		n, leaves := 0, map[string][]func(){}
		take := func(who string) bool {
			n++
			gone, leave := context.WithCancel(context.Background())
			slow, name := stuck{gone: gone, waiting: make(chan struct{}, 1)}, fmt.Sprint("agent", n)
			known.declare(name, "id-c", slow)
			x := as[who].Serve(slip.TypeSLIP, []byte(strings.Replace(words, "planner", name, 1)))
			if !x.Open() {
				leave()
				if err := x.Err(); err.Code != profiles.RateLimitExceeded || who == fairtest.Mallory && err.Excused {
					t.Errorf("%s is refused with %+v", who, err)
				}
				return false
			}
			wait(t, slow.waiting)
			leaves[who] = append(leaves[who], leave)
			return true
		}
		return take, func(who string) {
			used := s.Pools()[0].Used
			leaves[who][0]()
			leaves[who] = leaves[who][1:]
			for s.Pools()[0].Used == used {
				time.Sleep(time.Millisecond)
			}
		}
	})
}

// gated is a session that keeps what it is sent, once its gate is closed.
type gated struct {
	sink
	gate chan struct{}
	sent chan string
}

func (g gated) Send(_ context.Context, env e1.Envelope) error {
	<-g.gate
	g.sent <- string(env.Payload)
	return nil
}

// Identities that send to one agent take turns.
func TestRS27MessagesOfOneIdentityDoNotHoldUpThoseOfAnother(t *testing.T) {
	const many = 20
	var known agents
	planner := gated{gate: make(chan struct{}), sent: make(chan string, many+1)}
	known.declare("planner", "id-c", planner)
	s := service(t, slip.Options{Agents: &known})
	mallory, alice := profiletest.NewAs(t, s.Profile(), fairtest.Mallory), profiletest.NewAs(t, s.Profile(), fairtest.Alice)
	for range many {
		mallory.Serve(slip.TypeSLIP, []byte(words))
	}
	alice.Serve(slip.TypeSLIP, []byte(strings.Replace(words, "coordinator", "reporter", 1)))
	close(planner.gate)
	before := 0
	for !strings.Contains(wait(t, planner.sent), "reporter") {
		before++
	}
	if before > 2 { // one was being sent already
		t.Errorf("%d messages of another were sent before", before)
	}
	for range many - before {
		wait(t, planner.sent)
	}
}

func TestCloseGivesUpWhatIsOnItsWay(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	defer leave()
	slow := stuck{gone: gone, waiting: make(chan struct{}, 1)}
	var known agents
	known.declare("planner", "id-c", slow)
	s := service(t, slip.Options{Agents: &known})
	h := profiletest.New(t, s.Profile())
	first := h.Serve(slip.TypeSLIP, []byte(words))
	wait(t, slow.waiting)
	second := h.Serve(slip.TypeSLIP, []byte(words))
	s.Close()
	for _, x := range []*profiletest.Exchange{first, second, h.Serve(slip.TypeSLIP, []byte(words))} {
		if err := x.Wait().Err(); err == nil || err.Code != profiles.RateLimitExceeded {
			t.Error(err)
		}
	}
}
