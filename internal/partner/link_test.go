package partner_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

var errUnreachable = errors.New("unreachable")

func TestOptionsAreHeldAgainstWhatALinkNeeds(t *testing.T) {
	self := func() string { return "spiffe://a.example/swpd" }
	for want, o := range map[string]partner.Options{
		`name "", want`:    {Identity: "spiffe://b.example/swpd", Self: self},
		`name "b/c", want`: {Name: "b/c", Identity: "spiffe://b.example/swpd", Self: self},
		"no identity":      {Name: "b", Self: self},
		"want Self":        {Name: "b", Identity: "spiffe://b.example/swpd"},
		"without Dial":     {Name: "b", Identity: "spiffe://b.example/swpd", Self: self, Addresses: []transport.Addr{{Transport: "tls"}}},
	} {
		if _, err := partner.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// The pauses grow from 250 ms to 30 s, and at least half of each passes.
func TestRoundsOfAddressesComeLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rounds []time.Duration
		var tried []string
		begun := time.Now()
		first := transport.Addr{Transport: "quic", Host: "b.example", Port: 1}
		second := transport.Addr{Transport: "tls", Host: "b.example", Port: 2}
		failed := make(chan error, 100)
		l, err := partner.New(partner.Options{
			Name: "b", Identity: "spiffe://b.example/swpd", Self: func() string { return "spiffe://a.example/swpd" },
			Addresses: []transport.Addr{first, second},
			Dial: func(_ context.Context, addr transport.Addr) (transport.Conn, error) {
				if addr == first {
					rounds = append(rounds, time.Since(begun))
				}
				tried = append(tried, addr.String())
				return nil, errUnreachable
			},
			Attach:  func(transport.Conn) *endpoint.Session { panic("nothing was dialled") },
			Observe: func(e partner.Event) { failed <- e.Err },
		})
		if err != nil {
			t.Fatal(err)
		}
		l.Start()
		time.Sleep(10 * time.Minute)
		l.Close()
		if err := <-failed; !errors.Is(err, errUnreachable) {
			t.Errorf("told of %v", err)
		}
		if diff := cmp.Diff([]string{first.String(), second.String()}, tried[:2]); diff != "" {
			t.Errorf("order of addresses: %s", diff)
		}
		pause := 250 * time.Millisecond
		for i := 1; i < len(rounds); i++ {
			if got := rounds[i] - rounds[i-1]; got < pause/2 || got > pause {
				t.Errorf("pause %d was %v, want %v to %v", i, got, pause/2, pause)
			}
			pause = min(2*pause, 30*time.Second)
		}
		if len(rounds) < 20 || len(rounds) > 60 {
			t.Errorf("%d rounds in 10 minutes", len(rounds))
		}
	})
}

// end is an endpoint at the other side of pipes.
type end struct {
	ep  *endpoint.Endpoint
	set *all.Set
}

func newEnd(t *testing.T, knows string) *end {
	t.Helper()
	return newEndWith(t, knows, 0)
}

// newEndWith is newEnd with a time after which it ends what is idle; 0 is the default.
func newEndWith(t *testing.T, knows string, idle time.Duration) *end {
	t.Helper()
	set, err := all.New(all.Options{TellBounds: idle > 0, Partner: func(identity string) bool { return identity == knows }})
	if err != nil {
		t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: set.Registry, Bounds: endpoint.Bounds{Idle: idle}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ep.Close()
		set.Close()
	})
	return &end{ep, set}
}

// pipe returns a connection to the end.
func (e *end) pipe() transport.Conn {
	ours, theirs := transport.Pipe()
	e.ep.Attach(theirs)
	return ours
}

// The other end asks for whom it is a partner as soon as it is connected, and not again. A
// link that dialled before the Directory had it was none for the whole session.
func TestALinkDialsWhenItIsStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		l, err := partner.New(partner.Options{
			Name: "b", Identity: "spiffe://b.example/swpd", Self: func() string { return "spiffe://a.example/swpd" },
			Addresses: []transport.Addr{{Transport: "tls", Host: "b.example", Port: 1}},
			Dial: func(context.Context, transport.Addr) (transport.Conn, error) {
				dials++
				return nil, errUnreachable
			},
			Attach: func(transport.Conn) *endpoint.Session { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if dials > 0 {
			t.Errorf("dialled %d times before it was started", dials)
		}
		l.Start()
		synctest.Wait()
		l.Close()
		if dials == 0 {
			t.Error("never dialled")
		}
	})
}

// A partner ends what is idle for it, however short a time that is, and says so.
func TestALinkIsNeverIdleForItsPartner(t *testing.T) {
	for _, idle := range []time.Duration{3 * time.Second, 20 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			const self, other = "spiffe://a.example/swpd", "spiffe://b.example/swpd"
			far, near := newEndWith(t, self, idle), newEnd(t, other)
			l, err := partner.New(partner.Options{
				Name: "b", Identity: other, Self: func() string { return self }, Addresses: []transport.Addr{{Transport: "tls", Host: "b", Port: 1}},
				Dial:   func(context.Context, transport.Addr) (transport.Conn, error) { return far.pipe(), nil },
				Attach: near.ep.Attach,
			})
			if err != nil {
				t.Fatal(err)
			}
			l.Start()
			defer l.Close()
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if s := l.Status(); !s.Up || s.Connects != 1 {
				t.Errorf("idle time %v: up %v after %d connections", idle, s.Up, s.Connects)
			}
		})
	}
}

func TestALinkComesBackAndReadyWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const self, other = "spiffe://a.example/swpd", "spiffe://b.example/swpd"
		far, near := newEnd(t, self), newEnd(t, other)
		var down atomic.Bool
		events := make(chan partner.What, 100)
		l, err := partner.New(partner.Options{
			Name: "b", Identity: other, Self: func() string { return self }, Addresses: []transport.Addr{{Transport: "tls", Host: "b", Port: 1}},
			Dial: func(context.Context, transport.Addr) (transport.Conn, error) {
				if down.Load() {
					return nil, errUnreachable
				}
				return far.pipe(), nil
			},
			Attach:  near.ep.Attach,
			Observe: func(e partner.Event) { events <- e.What },
		})
		if err != nil {
			t.Fatal(err)
		}
		l.Start()
		defer l.Close()
		up, err := l.Ready(t.Context())
		if err != nil || !up.Dialled {
			t.Fatalf("%+v, %v", up, err)
		}
		down.Store(true)
		for s := range far.ep.Sessions() {
			s.Close(profiles.OK)
		}
		synctest.Wait()
		began := time.Now()
		time.AfterFunc(time.Second, func() { down.Store(false) })
		if again, err := l.Ready(t.Context()); err != nil || again == up || time.Since(began) < time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		down.Store(true)
		for s := range far.ep.Sessions() {
			s.Close(profiles.OK)
		}
		time.Sleep(time.Minute)
		began = time.Now()
		var fault *profiles.Error
		if _, err := l.Ready(t.Context()); !errors.As(err, &fault) || !fault.Retryable || time.Since(began) != 0 {
			t.Errorf("down for a minute: %v after %v", err, time.Since(began))
		}
		var list []partner.What
		for len(events) > 0 {
			e := <-events
			if len(list) == 0 || list[len(list)-1] != e {
				list = append(list, e)
			}
		}
		want := []partner.What{partner.Connected, partner.Lost, partner.Failed, partner.Connected, partner.Lost, partner.Failed}
		if !slices.Equal(list, want) {
			t.Errorf("events %v, want %v", list, want)
		}
	})
}

// A program of the partner has its identity, and is not it.
func TestOnlyAPartnerTakesTheLinkOfAPartner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const self, other = "spiffe://a.example/swpd", "spiffe://b.example/swpd"
		near, far, plain := newEnd(t, other), newEnd(t, self), newEnd(t, "nobody")
		l, err := partner.New(partner.Options{Name: "b", Identity: other, Self: func() string { return self }})
		if err != nil {
			t.Fatal(err)
		}
		l.Start()
		defer l.Close()
		from := func(e *end) *endpoint.Session {
			ours, theirs := transport.NewPipe(transport.PipeOptions{A: self, B: other})
			e.ep.Attach(theirs)
			s := near.ep.Attach(ours)
			l.Adopt(s)
			synctest.Wait()
			return s
		}
		carries := func(want *endpoint.Session, when string) {
			t.Helper()
			up, err := l.Ready(t.Context())
			if want == nil {
				if err == nil {
					t.Errorf("%s: session %d carries the link", when, up.Session.ID())
				}
				return
			}
			if err != nil || up.Session != want {
				t.Errorf("%s: %+v, %v, want session %d", when, up, err, want.ID())
			}
		}
		carries(from(plain), "an endpoint that names no partners, alone")
		first := from(far)
		carries(first, "the partner after it")
		from(plain)
		carries(first, "another program")
		second := from(far)
		carries(second, "the partner once more")
		second.Close(profiles.OK)
		synctest.Wait()
		carries(first, "the newer session is gone")
		first.Close(profiles.OK)
		synctest.Wait()
		carries(nil, "programs alone")
		carries(from(far), "the partner is back")
	})
}

func TestDirectorySplitsAtTheFirstSlash(t *testing.T) {
	l, err := partner.New(partner.Options{Name: "b", Identity: "spiffe://b.example/swpd", Self: func() string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	l.Start()
	defer l.Close()
	var d partner.Directory
	if _, _, ok := d.Split("b/x"); ok || d.Knows("") {
		t.Error("an empty directory knows somebody")
	}
	d.Set([]*partner.Link{l})
	for name, want := range map[string]string{"b/x": "x", "b/c/x": "c/x", "b/https://x": "https://x", "b": "", "b/": "", "c/x": "", "/x": "", "": ""} {
		got, rest, ok := d.Split(name)
		if ok != (want != "") || ok && (got != l || rest != want) {
			t.Errorf("%q: %q, %v, want %q", name, rest, ok, want)
		}
	}
	if !d.Knows("spiffe://b.example/swpd") || d.Knows("spiffe://c.example/swpd") || d.InFlight("spiffe://b.example/swpd") != 4096 || d.InFlight("") != 0 {
		t.Error("identities are mixed up")
	}
}

// One that accepts a session and ends it at once must not be dialled in a loop.
func TestPR19APartnerThatEndsEachSessionAtOnceIsDialledAfterPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, err := rpc.New(rpc.Options{Info: func(profiles.Session) rpc.Info { return rpc.Info{} }})
		if err != nil {
			t.Fatal(err)
		}
		r, err := profiles.NewRegistry(calls)
		if err != nil {
			t.Fatal(err)
		}
		ep, err := endpoint.New(endpoint.Options{Registry: r})
		if err != nil {
			t.Fatal(err)
		}
		defer ep.Close()                  //nolint:errcheck // of a test
		var dialled, lasting atomic.Int64 // lasting in nanoseconds
		l, err := partner.New(partner.Options{
			Name: "b", Identity: "spiffe://b.example/swpd", Self: func() string { return "spiffe://a.example/swpd" },
			Addresses: []transport.Addr{{Transport: "tls", Host: "b.example", Port: 1}},
			Dial: func(context.Context, transport.Addr) (transport.Conn, error) {
				dialled.Add(1)
				ours, theirs := transport.Pipe()
				s := ep.Attach(theirs)
				time.AfterFunc(time.Millisecond+time.Duration(lasting.Load()), func() { s.Close(profiles.OK) })
				return ours, nil
			},
			Attach: ep.Attach,
		})
		if err != nil {
			t.Fatal(err)
		}
		l.Start()
		defer l.Close()
		time.Sleep(time.Minute)
		if n := dialled.Load(); n < 30 || n > 70 {
			t.Errorf("dialled %d times in a minute", n)
		}
		lasting.Store(int64(10 * time.Second)) // what lasts is dialled again at once
		time.Sleep(time.Minute)
		before := dialled.Load()
		time.Sleep(time.Minute)
		if again := dialled.Load() - before; again < 5 || again > 6 {
			t.Errorf("dialled %d times in a minute of sessions of ten seconds", again)
		}
	})
}
