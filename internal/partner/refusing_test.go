package partner_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/endpoint/endpointtest"
	"github.com/slimwire/swp/transport/transporttest"
)

// far is a partner of some profiles at the other end of connections.
type far struct {
	t        *testing.T
	reaction endpointtest.Reaction
	ca       *transporttest.CA
	set      *all.Set
	ep       *endpoint.Endpoint
	near     *endpoint.Endpoint
	here     *mcpmap.Mapping
	opened   chan *endpoint.Session // of the far end
	dialled  atomic.Int32
	turns    atomic.Uint64 // not 0: each connection is closed at once, with this code less 1
}

func newFar(t *testing.T, reaction endpointtest.Reaction, serves []uint64) *far {
	t.Helper()
	set, err := all.New(all.Options{MCP: mcpmap.Options{Backend: calculator{}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	f := &far{t: t, reaction: reaction, ca: transporttest.NewCA(t), set: set, opened: make(chan *endpoint.Session, 1000)}
	f.ep = only(t, endpoint.Options{Observer: welcoming{endpoint.Discard, f.opened}, ErrorFrames: reaction == endpointtest.ErrorFrame, Bounds: endpoint.Bounds{Idle: 24 * time.Hour}}, reaction.Serves(t, set.Registry, rpc.ProfileID, serves)...)
	f.here = mcpmap.New(mcpmap.Options{Backend: calculator{}})
	t.Cleanup(f.here.Close)
	calls, err := rpc.New(rpc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := a2a.New(a2a.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tasks.Close)
	f.near = only(t, endpoint.Options{Reserved: true, Ask: rpc.Acquaint, Observer: endpoint.Discard, ErrorFrames: reaction == endpointtest.ErrorFrame}, f.here.Profile(), tasks.Profile(), calls)
	return f
}

func (f *far) dial(context.Context, transport.Addr) (transport.Conn, error) {
	f.dialled.Add(1)
	near, far := f.reaction.Pair(f.t, f.ca)
	if code := f.turns.Load(); code > 0 {
		tells := &endpoint.Farewells{Reads: func(string) bool { return code > 1 }}
		tells.Close(far, code-1, &profiles.Error{Code: profiles.SecurityPolicy, Text: "refused"})
		return near, nil
	}
	f.ep.Attach(far)
	return near, nil
}

func (f *far) link(o partner.Options) *partner.Link {
	f.t.Helper()
	o.Name, o.Identity, o.Self = "b", transporttest.Server, func() string { return transporttest.Client }
	o.Addresses = []transport.Addr{{Transport: "tls", Host: "b.example", Port: 1}}
	o.Dial, o.Attach = f.dial, f.near.Attach
	l, err := partner.New(o)
	if err != nil {
		f.t.Fatal(err)
	}
	l.Start()
	return l
}

// classes are the conformance classes.
func classes() map[string][]uint64 {
	c3 := []uint64{rpc.ProfileID, events.ProfileID, obs.ProfileID}
	c4 := append(slices.Clone(c3), artifact.ProfileID, state.ProfileID)
	var c5 []uint64
	set, err := all.New(all.Options{})
	if err != nil {
		panic(err)
	}
	defer set.Close()
	for _, p := range set.Registry.All() {
		c5 = append(c5, p.ID)
	}
	return map[string][]uint64{"C0": nil, "C1": {mcpmap.ProfileID}, "C2": {a2a.ProfileID}, "C3": c3, "C4": c4, "C5": c5}
}

// A partner of any class is reached, however it refuses swp.info: at most one connection is lost to the
// question, it is put once, and the link then stays. A session that the partner ends at once is none.
func TestAPartnerOfEachClassIsReachedHoweverItRefuses(t *testing.T) {
	for class, serves := range classes() {
		answers := slices.Contains(serves, rpc.ProfileID)
		for _, reaction := range endpointtest.Reactions() {
			t.Run(class+"/"+string(reaction), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFar(t, reaction, serves)
					l := f.link(partner.Options{})
					defer l.Close()
					began := time.Now()
					up, err := l.Ready(t.Context())
					if err != nil || time.Since(began) > 4*time.Second {
						t.Fatalf("after %v: %v", time.Since(began), err)
					}
					time.Sleep(time.Hour)
					want := int32(1)
					if !answers && reaction.Ends() {
						want = 2
					}
					if s := l.Status(); !s.Up || s.Connects != 1 || f.dialled.Load() != want {
						t.Fatalf("up %v, %d sessions, %d connections, want %d", s.Up, s.Connects, f.dialled.Load(), want)
					}
					if now := l.Now(); now != up && answers {
						t.Error("another session is in use")
					}
					if class != "C1" {
						return
					}
					request := &mcpmap.Call{Octets: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)}
					for len(f.opened) > 1 {
						<-f.opened
					}
					if _, err := f.set.MCP.Client(<-f.opened).Do(t.Context(), request); err != nil { // it shows that it serves MCP
						t.Fatal(err)
					}
					if _, err := f.here.Client(l.Now().Session).Do(t.Context(), request); err != nil {
						t.Error(err)
					}
					// That is remembered: the next session serves MCP from its beginning.
					l.Now().Session.Close(profiles.OK)
					synctest.Wait()
					up, err = l.Ready(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if _, err := f.here.Client(up.Session).Do(t.Context(), request); err != nil {
						t.Errorf("over the next session: %v", err)
					}
				})
			})
		}
	}
}

// A partner that ends each session at once refuses this endpoint. What it serves is not known from that: the link
// is down, says the cause, and pauses grow.
func TestPR19ASessionThatEndsAtOnceSaysNothingOfWhatThePartnerServes(t *testing.T) {
	for name, remembered := range map[string]partner.Remembered{"unknown": {}, "known": {Answers: true, Profiles: []uint64{rpc.ProfileID}}} {
		for _, reaction := range []endpointtest.Reaction{endpointtest.CloseNotify, endpointtest.FIN, endpointtest.RST, endpointtest.QUICReset} {
			t.Run(name+"/"+string(reaction), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFar(t, reaction, nil)
					f.turns.Store(1)
					connected := 0
					l := f.link(partner.Options{Remembered: remembered, Observe: func(e partner.Event) {
						if e.What == partner.Connected {
							connected++
						}
					}})
					defer l.Close()
					time.Sleep(time.Hour)
					if n := f.dialled.Load(); n < 100 || n > 300 || connected > 0 {
						t.Errorf("%d connections in an hour, %d of them for the link", n, connected)
					}
					s := l.Status()
					if s.Up || s.Cause != causes.Unsaid.String() {
						t.Errorf("status %+v", s)
					}
					if _, err := l.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "the cause was not said") {
						t.Errorf("a caller is told %v", err)
					}
					// It is let in again.
					f.turns.Store(0)
					time.Sleep(3 * time.Minute)
					if s := l.Status(); !s.Up {
						t.Errorf("it is let in, and the status is %+v", s)
					}
				})
			})
		}
	}
}

// The matrix of refusals: each cause that has a code, over TLS by an Error and over QUIC by the code of the connection,
// before and after a restart, reaches callers, status and the reasons of tasks and deliveries, with its remedy.
func TestTheMatrixOfRefusals(t *testing.T) {
	for _, row := range causes.All() {
		if row.Code == 0 {
			continue
		}
		for _, reaction := range []endpointtest.Reaction{endpointtest.CloseNotify, endpointtest.QUICReset} {
			t.Run(row.Name+"/"+string(reaction), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFar(t, reaction, []uint64{rpc.ProfileID})
					var kept partner.Remembered
					o := partner.Options{Remember: func(r partner.Remembered) { kept = r }}
					l := f.link(o)
					defer func() { l.Close() }()
					if _, err := l.Ready(t.Context()); err != nil {
						t.Fatal(err)
					}
					for _, when := range []string{"before a restart", "after a restart"} {
						f.turns.Store(row.Code + 1)
						if up := l.Now(); up != nil {
							up.Session.Close(profiles.OK)
						}
						time.Sleep(time.Minute)
						before := f.dialled.Load()
						time.Sleep(10 * time.Minute)
						if n := f.dialled.Load() - before; n < 15 || n > 50 {
							t.Errorf("%s: %d connections in ten minutes", when, n)
						}
						var d partner.Directory
						d.Set([]*partner.Link{l})
						_, err := l.Ready(t.Context())
						if err == nil {
							t.Fatalf("%s: it is up", when)
						}
						s := l.Status()
						if s.Up || s.Cause != row.Name || s.Failures == 0 {
							t.Errorf("%s: status %+v", when, s)
						}
						words := row.Cause.Words("it", "this endpoint") + "; " + row.Remedy
						for where, text := range map[string]string{"a caller": err.Error(), "status": s.Failure, "a delivery": d.Refusal("b")} {
							if !strings.Contains(text, words) {
								t.Errorf("%s: %s is told %q, want %q", when, where, text, words)
							}
						}
						l.Close()
						o.Remembered = kept
						l = f.link(o)
					}
					if !kept.Answers || !slices.Contains(kept.Profiles, profiles.ErrorProfile) {
						t.Errorf("it is remembered to serve %+v", kept)
					}
				})
			})
		}
	}
}
