package daemon

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
	carriage "github.com/slimwire/swp/profiles/sdl"
)

// pings calls a partner that serves others meanwhile or afterwards.
func (s *session) pings(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, method := range []string{rpc.MethodPing, "b/" + rpc.MethodPing} {
		if _, err := rpc.Call(ctx, s.Session, method, nil); err != nil {
			t.Errorf("%s: %s: %v", name, method, err)
		}
	}
}

// An evt has no answer, so one is no answer to it.
func TestPR19AnEventThatIsAnsweredIsNotAnsweredHere(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		s := a.mustDial(a.addrs[transport])
		h.with(when(carriage.ProfileID, carriage.TypeEvt, func(m *told) { m.answer(carriage.TypeRes, []byte(`{}`)) }))
		lane := opened(t, profiles.Toward(s.Session, "b"))
		call, err := lane.Call(t.Context(), e1.Envelope{ProfileID: carriage.ProfileID, MsgType: carriage.TypeEvt, Payload: sdlToolCall("sys.ping").AppendJSON(nil)})
		if err != nil {
			t.Fatal(err)
		}
		defer call.Close()
		if err := rpc.SyncOf(t.Context(), lane, call.MsgID()); err != nil {
			t.Fatal(err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if answer, err := call.Recv(ended); err == nil {
			t.Errorf("answered with %s", answer.Payload)
		}
		a.wrongs("sdl", 1)
		s.pings(t, "afterwards")
	})
}

// Clients that share a link have a session each, and none gets that of another.
func TestPR19ASessionWithTheNameOfAnotherIsRefused(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		h.with(when(mcpmap.ProfileID, uint64(mcpmap.Request), func(m *told) {
			if !m.begins("one") {
				m.answer(uint64(mcpmap.Response), []byte(`{"jsonrpc":"2.0","id":7,"result":"here"}`))
			}
		}))
		first, second := a.mustDial(a.addrs[transport]), a.mustDial(a.addrs[transport])
		session := first.begin(t, "b/server")
		if got := second.mustAsk(t, "b/server", legacyBegin); !strings.Contains(got, "partner b broke the protocol with its answer: ") {
			t.Errorf("the second is told %s", got)
		}
		result, err := first.ask(t, mcpmap.Call{Target: "b/server", Session: session, Octets: []byte(legacyCall)})
		if err != nil || !strings.Contains(string(result.Octets), `"here"`) {
			t.Errorf("the first afterwards: %+v, %v", result, err)
		}
		a.wrongs("mcp", 1)
	})
}

// A client that has left is waited for only until its session could be closed.
func TestPR19AnInitializeThatIsNeverAnsweredIsGivenUpWithItsClient(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		var asked atomic.Int32
		h.with(when(mcpmap.ProfileID, uint64(mcpmap.Request), func(*told) { asked.Add(1) }))
		var all sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		const many = 140 // more than the 128 streams of QUIC
		for range many / 35 {
			n := asked.Load()
			s := a.mustDial(a.addrs[1]) // whose end is known at once
			for range 35 {
				all.Go(func() {
					_, _ = s.mapping.Client(s.Session).Do(ctx, &mcpmap.Call{Target: "b/server", Octets: []byte(legacyBegin)})
				})
			}
			a.until(fmt.Sprint("more that begin than ", n), func() bool { return asked.Load() >= n+20 })
			leave()
			all.Wait()
			s.Close(profiles.OK)
			ctx, leave = context.WithCancel(t.Context())
		}
		leave()
		a.mustDial(a.addrs[0]).pings(t, "afterwards")
	})
}

// Messages of a session that nobody waits for are dropped beyond a bound, and its requests
// refused, while others are served.
func TestPR19ASessionThatNeverStopsTalkingHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		stop := make(chan struct{})
		var talking sync.WaitGroup
		t.Cleanup(func() { close(stop); talking.Wait() })
		var sent atomic.Int32
		h.with(when(mcpmap.ProfileID, uint64(mcpmap.Request), func(m *told) {
			if !m.begins("one") {
				return
			}
			talking.Go(func() {
				for i := 0; i < 20_000; i++ {
					select {
					case <-stop:
						return
					default:
					}
					kind, octets := mcpmap.Notification, []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"`+strings.Repeat("x", 10_000)+`"}}`)
					if i%4 == 0 {
						kind, octets = mcpmap.Request, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, i)
					}
					m.to.say(e1.Envelope{
						Version: e1.Version, ProfileID: mcpmap.ProfileID, MsgType: uint64(kind), MsgID: fmt.Appendf(nil, "talk%012d", i), Payload: octets,
						Extensions: sessionNamed("one"),
					})
					sent.Add(1)
				}
			})
		}))
		s := a.mustDial(a.addrs[transport])
		s.begin(t, "b/server") // and reads nothing of it
		a.until("that it talks", func() bool { return sent.Load() > 2000 })
		other := a.mustDial(a.addrs[transport])
		for range 10 {
			other.pings(t, "meanwhile")
		}
	})
}

// A stream of a session that ends at once, or with an answer to something else, is opened
// again after pauses that grow.
func TestPR19ASessionWhoseStreamEndsAtOnceIsListenedToAfterPauses(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, h := atHostile(t, transport, "")
		var listened atomic.Int32
		h.with(func(m *told) bool {
			switch {
			case m.ProfileID == mcpmap.ProfileID && m.MsgType == uint64(mcpmap.Request):
				return m.begins("one")
			case m.method() == mcpmap.MethodRPCListen:
				listened.Add(1)
				m.returns(nil)
				return true
			}
			return false
		})
		s := a.mustDial(a.addrs[transport])
		s.begin(t, "b/server")
		a.until("that it is listened to", func() bool { return listened.Load() > 0 })
		began := time.Now()
		for listened.Load() < 6 && time.Since(began) < 5*time.Second {
			time.Sleep(10 * time.Millisecond)
		}
		// Five pauses of 250 ms would be over after 1.25 s.
		if took := time.Since(began); took < 2*time.Second {
			t.Errorf("listened to six times within %v", took)
		}
		s.pings(t, "meanwhile")
	})
}
