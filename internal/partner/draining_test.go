package partner_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// shutting is a process of a partner, with a call that does not end and tasks that end at once.
type shutting struct {
	*endpoint.Endpoint
	tasks atomic.Int32
	calls atomic.Int32 // of tools
}

// Do implements mcpmap.Server.
func (p *shutting) Do(x *mcpmap.Exchange) {
	p.calls.Add(1)
	x.Finish([]byte(toolAnswer))
}

// Connect implements mcpmap.Server.
func (p *shutting) Connect(mcpmap.Counterpart) (mcpmap.Conversation, error) {
	return nil, errors.New("no sessions")
}

const toolAnswer = `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`

// tables returns an MCP backend with some servers.
func tables(t *testing.T, servers map[string]mcpmap.Server) mcpmap.Backend {
	t.Helper()
	table, err := mcpmap.NewTable(servers, "")
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// learning is an Observer that has an endpoint know that its peers act on extension 54, as their
// swp.info says.
type learning struct{ endpoint.Observer }

func (l learning) Opened(s *endpoint.Session) {
	profiles.Learn(s, profiles.Offer{Extensions: map[uint64][]uint64{0: {profiles.ExtDraining}}})
	l.Observer.Opened(s)
}

func newShutting(t *testing.T, knows string, tells bool) *shutting {
	t.Helper()
	p := new(shutting)
	set, err := all.New(all.Options{
		Partner: func(identity string) bool { return identity == knows },
		MCP:     mcpmap.Options{Backend: tables(t, map[string]mcpmap.Server{"tools": p})},
		RPC: rpc.Options{Methods: map[string]rpc.Method{"hang": {Held: func(p *rpc.Pending, _ []byte) error {
			context.AfterFunc(p.Context(), func() { p.Fail(nil) })
			return nil
		}}}},
		A2A: a2a.Options{Store: memoryStore(t), Workers: []a2a.Registration{{Kinds: []string{"k"}, Worker: a2a.WorkerFunc(func(context.Context, *a2a.Task, func(string, []byte) error) ([]byte, error) {
			p.tasks.Add(1)
			return []byte("done"), nil
		})}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var observer endpoint.Observer = endpoint.Discard
	if tells {
		observer = learning{observer}
	}
	p.Endpoint = observed(t, set, observer)
	return p
}

func memoryStore(t *testing.T) *sqlstore.Store {
	t.Helper()
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func attached(t *testing.T, set *all.Set) *endpoint.Endpoint {
	t.Helper()
	return observed(t, set, endpoint.Discard)
}

// observed returns an endpoint of a set, which it closes.
func observed(t *testing.T, set *all.Set, observer endpoint.Observer) *endpoint.Endpoint {
	t.Helper()
	ep, err := endpoint.New(endpoint.Options{Registry: set.Registry, Observer: observer})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ep.Close()
		set.Close()
	})
	return ep
}

// A process of the partner shuts down, and waits for a call that does not end. A task or a call of a
// tool during that time is for the next process.
func TestWorkForAPartnerThatShutsDownTakesItsNextConnection(t *testing.T) {
	for name, test := range map[string]struct {
		mux, tells, tool bool
		within           time.Duration
	}{
		"over one stream":               {false, true, false, 2 * time.Second},
		"over streams":                  {true, true, false, 2 * time.Second},
		"over one stream and not told":  {false, false, false, time.Minute},
		"over streams and not told why": {true, false, false, time.Minute},
		"a tool over one stream":        {false, true, true, 2 * time.Second},
		"a tool over streams":           {true, true, true, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const self, other = "spiffe://a.example/swpd", "spiffe://b.example/swpd"
				processes := []*shutting{newShutting(t, self, test.tells), newShutting(t, self, test.tells)}
				var served *all.Set
				directory := new(partner.Directory)
				served, err := all.New(all.Options{A2A: a2a.Options{Store: memoryStore(t)}, MCP: mcpmap.Options{Backend: &partner.Backend{
					Local: tables(t, nil), Directory: directory, Client: func(s profiles.Session) *mcpmap.Client { return served.MCP.Client(s) },
				}}})
				if err != nil {
					t.Fatal(err)
				}
				near := attached(t, served)
				dialled := 0
				l, err := partner.New(partner.Options{
					Name: "b", Identity: other, Self: func() string { return self }, Addresses: []transport.Addr{{Transport: "tls", Host: "b", Port: 1}},
					Dial: func(context.Context, transport.Addr) (transport.Conn, error) {
						ours, theirs := transport.NewPipe(transport.PipeOptions{Multiplexed: test.mux, A: self, B: other})
						processes[min(dialled, 1)].Attach(theirs)
						dialled++
						return ours, nil
					},
					Attach: near.Attach, Tasks: served.A2A,
				})
				if err != nil {
					t.Fatal(err)
				}
				directory.Set([]*partner.Link{l})
				up := connected(t, l)
				defer l.Close()
				hung := make(chan error, 1)
				go func() {
					_, err := rpc.Call(t.Context(), up.Session, "hang", nil)
					hung <- err
				}()
				synctest.Wait()
				go func() { _ = processes[0].Shutdown(context.Background()) }()
				synctest.Wait()

				set, err := all.New(all.Options{})
				if err != nil {
					t.Fatal(err)
				}
				client := attached(t, set)
				ours, theirs := transport.Pipe()
				near.Attach(theirs)
				ctx, cancel := context.WithTimeout(t.Context(), test.within)
				defer cancel()
				asker := client.Attach(ours)
				if test.tool {
					callTool(ctx, t, set.MCP.Client(asker))
				} else {
					sendTask(ctx, t, set.A2A, asker)
				}
				if n := processes[1].tasks.Load() + processes[1].calls.Load(); n != 1 || processes[0].tasks.Load()+processes[0].calls.Load() != 0 || dialled != 2 {
					t.Errorf("%d tasks and calls at the next process after %d connections", n, dialled)
				}
				if now, err := l.Ready(t.Context()); err != nil || now == up {
					t.Errorf("the link has the old session: %v", err)
				}
				select {
				case err := <-hung:
					t.Errorf("what was under way has ended: %v", err)
				default:
				}
				_ = processes[0].Close()
				if err := <-hung; err == nil || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("what was under way: %v", err)
				}
			})
		})
	}
}

// sendTask sends a task to the partner, and waits for its Result.
func sendTask(ctx context.Context, t *testing.T, from *a2a.Service, s profiles.Session) {
	t.Helper()
	d, err := from.Send(t.Context(), s, &a2a.Task{Kind: "b/k"}, a2a.SendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for err == nil {
		_, err = d.Recv(ctx)
	}
	result := d.Result()
	if result == nil || !result.OK || string(result.Output) != "done" {
		t.Fatalf("the task ended with %+v, %v", result, err)
	}
}

// callTool calls a tool of the partner.
func callTool(ctx context.Context, t *testing.T, c *mcpmap.Client) {
	t.Helper()
	const request = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	result, err := c.Do(ctx, &mcpmap.Call{Target: "b/tools", Octets: []byte(request)})
	if err != nil || string(result.Octets) != toolAnswer {
		t.Fatalf("the call ended with %+v, %v", result, err)
	}
}

// saying adds extension 54 to each answer.
type saying struct{ profiles.Responder }

func (s saying) Finish(env e1.Envelope) error {
	env.Extensions = e1.AppendExtension(env.Extensions, profiles.ExtDraining, nil)
	return s.Responder.Finish(env)
}

func TestPR19APartnerThatDrainsEachSessionAtOnceIsDialledAfterPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there, err := rpc.New(rpc.Options{Info: func(profiles.Session) rpc.Info { return rpc.Info{Profiles: []rpc.ProfileInfo{{ID: rpc.ProfileID}}} }})
		if err != nil {
			t.Fatal(err)
		}
		drains := *there
		drains.Handler = profiles.HandlerFunc(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
			return there.Handler.Serve(ctx, req, saying{w})
		})
		far, near := only(t, endpoint.Options{}, &drains), newEnd(t, "")
		dialled := 0
		l, err := partner.New(partner.Options{
			Name: "b", Identity: "spiffe://b.example/swpd", Self: func() string { return "spiffe://a.example/swpd" },
			Addresses: []transport.Addr{{Transport: "tls", Host: "b.example", Port: 1}},
			Dial: func(context.Context, transport.Addr) (transport.Conn, error) {
				dialled++
				ours, theirs := transport.Pipe()
				far.Attach(theirs)
				return ours, nil
			},
			Attach: near.ep.Attach,
		})
		if err != nil {
			t.Fatal(err)
		}
		l.Start()
		defer l.Close()
		time.Sleep(10 * time.Minute)
		if open := near.ep.Stats().Sessions; dialled < 100 || dialled > 700 || open > 4 {
			t.Errorf("%d connections in 10 minutes, %d of them open", dialled, open)
		}
		if s := l.Status(); s.Up || s.Failure == "" {
			t.Errorf("the link is said to be up: %+v", s)
		}
	})
}

// A process of the partner shuts down, waits for a call and accepts no connections. Until the call has ended that is the
// cause for callers and in the status, and not the connection that was not made.
func TestPR19APartnerThatWaitsForWorkBeforeItStopsIsDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const self, other = "spiffe://a.example/swpd", "spiffe://b.example/swpd"
		process := newShutting(t, self, true)
		set, err := all.New(all.Options{})
		if err != nil {
			t.Fatal(err)
		}
		near := attached(t, set)
		stops := false
		l, err := partner.New(partner.Options{
			Name: "b", Identity: other, Self: func() string { return self }, Addresses: []transport.Addr{{Transport: "tls", Host: "b", Port: 1}},
			Dial: func(context.Context, transport.Addr) (transport.Conn, error) {
				if stops {
					return nil, errors.New("connection refused")
				}
				ours, theirs := transport.NewPipe(transport.PipeOptions{A: self, B: other})
				process.Attach(theirs)
				return ours, nil
			},
			Attach: near.Attach,
		})
		if err != nil {
			t.Fatal(err)
		}
		up := connected(t, l)
		defer l.Close()
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go func() { _, _ = rpc.Call(ctx, up.Session, "hang", nil) }()
		synctest.Wait()
		stops = true
		go func() { _ = process.Shutdown(context.Background()) }()
		synctest.Wait()
		_, _ = rpc.Call(t.Context(), up.Session, rpc.MethodPing, nil) // it is refused, and so the link learns that
		for range 3 {
			time.Sleep(20 * time.Second)
			words := causes.Draining.Words("it", "this endpoint") + "; " + causes.Draining.Remedy()
			if s := l.Status(); s.Up || s.Cause != causes.Draining.String() || !strings.Contains(s.Failure, words) {
				t.Errorf("status %+v", s)
			}
			if _, err := l.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("a caller is told %v", err)
			}
		}
		end()
		_ = process.Close()
		time.Sleep(time.Minute)
		if s := l.Status(); s.Up || s.Cause != "" || !strings.Contains(s.Failure, "connection refused") {
			t.Errorf("when it has stopped: status %+v", s)
		}
	})
}
