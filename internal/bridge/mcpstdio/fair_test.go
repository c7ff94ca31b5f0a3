package mcpstdio_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcpstdio"
	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/profiles/mcpmap"
)

const refusedForNow = `"data":{"code":"ERR_RATE_LIMIT_EXCEEDED","retryable":true}`

// sessions opens n legacy sessions, without using them, and returns how many of them have remained or were
// not refused.
func (c *caller) sessions(n int) (remain int) {
	var ids []string
	for i := range n {
		out := <-c.start(&mcpmap.Call{Octets: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"i%d","method":"initialize"}`, i)})
		if strings.Contains(out.octets, `"result"`) {
			ids = append(ids, out.session)
		}
	}
	for _, id := range ids {
		if strings.Contains(c.in(id, `{"jsonrpc":"2.0","id":1,"method":"pid"}`), `"result"`) {
			remain++
		}
	}
	return remain
}

func TestRS22SessionsOfOneIdentityLeaveChildrenForAnother(t *testing.T) {
	s := serve(t, "legacy", mcpstdio.Config{MaxChildren: 8})
	if n := s.dial("mallory").sessions(10); n != 7 {
		t.Errorf("mallory has %d of 8 children, want 7", n)
	}
	if n := s.dial("alice").sessions(1); n != 1 {
		t.Error("alice gets none")
	}
}

// Who holds sessions without using them gives them to others, until each has its share.
func TestRS22AQuietSessionEndsForAnIdentityWithFewer(t *testing.T) {
	s := serve(t, "legacy", mcpstdio.Config{MaxChildren: 4})
	mallory, alice := s.dial("mallory"), s.dial("alice")
	if n := mallory.sessions(5); n != 4 {
		t.Errorf("mallory has %d of 4 children", n)
	}
	if n := alice.sessions(4); n != 2 {
		t.Errorf("alice has %d sessions, want half of them", n)
	}
	await(t, func() bool { return s.server.Stats().Children == 4 })
	if n := mallory.sessions(3); n != 2 {
		t.Errorf("mallory has %d sessions in place of its two", n)
	}
}

func TestRS22ASessionWithARequestDoesNotYield(t *testing.T) {
	s := serve(t, "legacy", mcpstdio.Config{MaxChildren: 2})
	mallory, alice := s.dial("mallory"), s.dial("alice")
	one, two := mallory.initialize(mcpmap.Events{}), mallory.initialize(mcpmap.Events{})
	busy := mallory.start(&mcpmap.Call{Session: one, Octets: []byte(`{"jsonrpc":"2.0","id":1,"method":"silent"}`)})
	await(t, func() bool { return s.server.Stats().InFlight == 1 })
	if n := alice.sessions(1); n != 1 {
		t.Error("alice gets no session")
	}
	if answer := mallory.in(two, `{"jsonrpc":"2.0","id":1,"method":"pid"}`); !strings.Contains(answer, "error") {
		t.Errorf("the quiet session answers %s", answer)
	}
	select {
	case out := <-busy:
		t.Errorf("the request has ended: %+v", out)
	default:
	}
}

// The programs of an identity have left their sessions open. The next one gets the place of the one
// that was used least recently, but of none with a request.
func TestRS22AnIdentityReplacesItsOwnQuietSessions(t *testing.T) {
	s := serve(t, "legacy", mcpstdio.Config{MaxChildren: 2})
	alice := s.dial("alice")
	pid := `{"jsonrpc":"2.0","id":1,"method":"pid"}`
	busy := alice.initialize(mcpmap.Events{})
	alice.start(&mcpmap.Call{Session: busy, Octets: []byte(`{"jsonrpc":"2.0","id":2,"method":"silent"}`)})
	await(t, func() bool { return s.server.Stats().InFlight == 1 })
	last := alice.initialize(mcpmap.Events{})
	for range 5 {
		next := alice.initialize(mcpmap.Events{})
		if answer := alice.in(last, pid); !strings.Contains(answer, "ERR_NOT_FOUND") {
			t.Errorf("the session before answers %s", answer)
		}
		last = next
	}
	decode[int](t, alice.in(last, pid))
	decode[int](t, alice.in(busy, pid))
	alice.start(&mcpmap.Call{Session: last, Octets: []byte(`{"jsonrpc":"2.0","id":2,"method":"silent"}`)})
	await(t, func() bool { return s.server.Stats().InFlight == 2 })
	if out := <-alice.start(&mcpmap.Call{Octets: []byte(`{"jsonrpc":"2.0","id":"i","method":"initialize"}`)}); !strings.Contains(out.octets, refusedForNow) {
		t.Errorf("without an idle one: %s", out.octets)
	}
}

// An identity above its share gets its next session in the place of its own idle one, whatever its
// share is by then: it must not wait for a share that it does not get.
func TestRS22ASessionTakesOverThePlaceThatItsIdentityGivesUp(t *testing.T) {
	s := serve(t, "legacy", mcpstdio.Config{MaxChildren: 16})
	alice, bob := s.dial("alice"), s.dial("bob")
	for _, turn := range []struct {
		c *caller
		n int
	}{{alice, 20}, {bob, 6}, {alice, 4}} {
		for i := range turn.n {
			opened := turn.c.start(&mcpmap.Call{Octets: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"i%d","method":"initialize"}`, i)})
			select {
			case out := <-opened:
				if !strings.Contains(out.octets, `"result"`) {
					t.Fatalf("session %d of %d: %v %s", i+1, turn.n, out.err, out.octets)
				}
			case <-time.After(time.Minute):
				t.Fatalf("session %d of %d waits: %+v", i+1, turn.n, s.server.Stats())
			}
		}
	}
	await(t, func() bool { return s.server.Stats().Children <= 16 && s.server.Stats().Waiting == 0 })
}

// Requests whose ids a child could confuse wait; of two identities, in turn.
func TestRS22RequestsThatWaitForAChildAreServedInTurn(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{MaxShared: 1, MaxWaiting: 16})
	mallory, alice, admin := s.dial("mallory"), s.dial("alice"), s.dial("admin")
	admin.do(modern("0", "pid", ""))
	first := mallory.start(&mcpmap.Call{Octets: []byte(modern("1", "hold", `{"jsonrpc":"2.0","id":1,"result":"first"}`))})
	await(t, func() bool { return s.server.Stats().InFlight == 1 })
	var order []<-chan outcome
	waiting := 0
	wait := func(c *caller, n int, id string) {
		for range n {
			order = append(order, c.start(&mcpmap.Call{Octets: []byte(modern(id, "count", ""))}))
			waiting++
			await(t, func() bool { return s.server.Stats().Waiting == waiting })
		}
	}
	wait(mallory, 6, "1")
	wait(alice, 3, "1")
	admin.do(modern("2", "release", ""))
	<-first
	var got []string
	for _, out := range order {
		octets := (<-out).octets
		got = append(got, strings.TrimSuffix(octets[strings.LastIndexByte(octets, ':')+1:], "}"))
	}
	if want := "1 3 5 7 8 9 2 4 6"; strings.Join(got, " ") != want {
		t.Errorf("the requests of mallory, then of alice, are served as number %v, want %s", got, want)
	}
}

func TestRS22RequestsOfOneIdentityLeavePlacesToWaitForAnother(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{MaxShared: 1, MaxWaiting: 8})
	mallory, alice, admin := s.dial("mallory"), s.dial("alice"), s.dial("admin")
	admin.do(modern("0", "pid", ""))
	mallory.start(&mcpmap.Call{Octets: []byte(modern("1", "hold", `{"jsonrpc":"2.0","id":1,"result":"first"}`))})
	await(t, func() bool { return s.server.Stats().InFlight == 1 })
	for i := range 7 {
		mallory.start(&mcpmap.Call{Octets: []byte(modern("1", "pid", ""))})
		await(t, func() bool { return s.server.Stats().Waiting == i+1 })
	}
	if answer := mallory.do(modern("1", "pid", "")); !strings.Contains(answer, refusedForNow) {
		t.Errorf("the eighth request of mallory: %s", answer)
	}
	out := alice.start(&mcpmap.Call{Octets: []byte(modern("1", "pid", ""))})
	await(t, func() bool { return s.server.Stats().Waiting == 8 })
	admin.do(modern("2", "release", ""))
	decode[int](t, (<-out).octets)
}

func TestFairnessOfRequestsThatWait(t *testing.T) {
	served := func(flooded bool) (n int) {
		s := serve(t, "modern", mcpstdio.Config{MaxShared: 1, MaxWaiting: 16})
		mallory, alice, admin := s.dial("mallory"), s.dial("alice"), s.dial("admin")
		admin.do(modern("0", "pid", ""))
		first := mallory.start(&mcpmap.Call{Octets: []byte(modern("1", "hold", `{"jsonrpc":"2.0","id":1,"result":"first"}`))})
		await(t, func() bool { return s.server.Stats().InFlight == 1 })
		waiting := 0
		wait := func(c *caller, n int) (all []<-chan outcome) {
			for range n {
				all = append(all, c.start(&mcpmap.Call{Octets: []byte(modern("1", "count", ""))}))
				waiting++
				await(t, func() bool { return s.server.Stats().Waiting == waiting })
			}
			return all
		}
		if flooded {
			wait(mallory, 14) // it gets no more
		}
		hers := wait(alice, 16-max(waiting, 2))
		admin.do(modern("2", "release", ""))
		<-first
		for _, out := range hers {
			octets := (<-out).octets
			if place := strings.TrimSuffix(octets[strings.LastIndexByte(octets, ':')+1:], "}"); place <= "4" && len(place) == 1 {
				n++
			}
		}
		return n
	}
	fairtest.Row(t, "mcp: requests that wait for a server", "of the next 4", served(false), served(true))
}

func TestFairnessOfSessions(t *testing.T) {
	opened := func(flooded bool) int {
		s := serve(t, "legacy", mcpstdio.Config{MaxChildren: 4})
		if flooded {
			s.dial("mallory").sessions(6)
		}
		return s.dial("alice").sessions(6)
	}
	fairtest.Row(t, "mcp: sessions of a server", "children of 4", opened(false), opened(true))
}
