package partner_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

// calculator answers every request of MCP.
type calculator struct{}

func (calculator) Targets() ([]string, string)           { return []string{"calc"}, "calc" }
func (c calculator) Server(string) (mcpmap.Server, bool) { return c, true }
func (calculator) Do(x *mcpmap.Exchange)                 { x.Finish([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)) }
func (calculator) Connect(mcpmap.Counterpart) (mcpmap.Conversation, error) {
	return nil, errors.New("no sessions")
}

// connected starts a link and returns its session.
func connected(t *testing.T, l *partner.Link) *partner.Up {
	t.Helper()
	l.Start()
	up, err := l.Ready(t.Context())
	if err != nil {
		l.Close()
		t.Fatal(err)
	}
	return up
}

// only returns an endpoint of some profiles.
func only(t *testing.T, opts endpoint.Options, list ...*profiles.Profile) *endpoint.Endpoint {
	t.Helper()
	registry, err := profiles.NewRegistry(list...)
	if err != nil {
		t.Fatal(err)
	}
	opts.Registry = registry
	ep, err := endpoint.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ep.Close() })
	return ep
}

// welcoming is an Observer that hands over each session.
type welcoming struct {
	endpoint.Observer
	opened chan *endpoint.Session
}

func (w welcoming) Opened(s *endpoint.Session) { w.opened <- s }

// An endpoint of MCP and A2A ends the connection, or over QUIC the stream, over the
// question what it offers.
func TestAPartnerOfMCPAndA2AIsCalledOverEachTransport(t *testing.T) {
	for _, kind := range []string{"tls", "quic"} {
		for name, entry := range map[string][]uint64{"known": {mcpmap.ProfileID, a2a.ProfileID}, "unknown": nil} {
			t.Run(kind+" "+name, func(t *testing.T) {
				transporttest.NoLeaks(t)
				there, here := mcpmap.New(mcpmap.Options{Backend: calculator{}}), mcpmap.New(mcpmap.Options{Backend: calculator{}})
				defer there.Close()
				defer here.Close()
				tasks, err := a2a.New(a2a.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer tasks.Close()
				calls, err := rpc.New(rpc.Options{})
				if err != nil {
					t.Fatal(err)
				}
				ca := transporttest.NewCA(t)
				opened := make(chan *endpoint.Session, 10)
				far := only(t, endpoint.Options{Observer: welcoming{endpoint.Discard, opened}}, there.Profile(), tasks.Profile())
				ln := transporttest.Listen(t, kind, ca.Policy(t, transporttest.Server), nil)
				var serving sync.WaitGroup
				serving.Go(func() {
					if err := far.Serve(context.Background(), ln); err != nil {
						t.Error(err)
					}
				})
				defer func() { _ = ln.Close(); serving.Wait() }()
				var dialled atomic.Int32
				near := only(t, endpoint.Options{Reserved: true, Ask: rpc.Acquaint, Observer: endpoint.Discard}, here.Profile(), calls)
				l, err := partner.New(partner.Options{
					Name: "b", Identity: transporttest.Server, Self: func() string { return transporttest.Client }, Profiles: entry,
					Addresses: []transport.Addr{{Transport: kind, Host: "b.example", Port: 1}}, Attach: near.Attach,
					Dial: func(ctx context.Context, _ transport.Addr) (transport.Conn, error) {
						dialled.Add(1)
						return transporttest.Dial(ctx, kind, ln.Addr().String(), ca.Policy(t, transporttest.Client))
					},
					Wait: transporttest.Patience,
				})
				if err != nil {
					t.Fatal(err)
				}
				up := connected(t, l)
				defer l.Close()
				if _, err := rpc.Call(t.Context(), up.Session, rpc.MethodPing, nil); !profiles.IsUnserved(err) {
					t.Errorf("a call of RPC: %v", err)
				}
				request := &mcpmap.Call{Octets: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)}
				if entry == nil { // it has to show that it serves MCP
					if _, err := here.Client(up.Session).Do(t.Context(), request); !profiles.IsUnserved(err) {
						t.Errorf("a call of MCP: %v", err)
					}
					if kind == "tls" {
						<-opened // it has ended at the question; over QUIC only the stream has
					}
					if _, err := there.Client(<-opened).Do(t.Context(), request); err != nil {
						t.Error(err)
					}
				}
				if _, err := here.Client(up.Session).Do(t.Context(), request); err != nil {
					t.Error(err)
				}
				if n := dialled.Load(); n != map[bool]int32{true: 2, false: 1}[entry == nil && kind == "tls"] {
					t.Errorf("%d connections", n)
				}
			})
		}
	}
}

// One that is just being restarted answers no question either.
func TestAPartnerThatIsAwayWhenItIsFirstAskedIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const self, other = "spiffe://a.example/swpd", "spiffe://b.example/swpd"
		far, near := newEnd(t, self), newEnd(t, other)
		dialled := 0
		l, err := partner.New(partner.Options{
			Name: "b", Identity: other, Self: func() string { return self }, Addresses: []transport.Addr{{Transport: "tls", Host: "b", Port: 1}},
			Dial: func(context.Context, transport.Addr) (transport.Conn, error) {
				if dialled++; dialled <= 2 {
					ours, theirs := transport.Pipe()
					_ = theirs.Close(0)
					return ours, nil
				}
				return far.pipe(), nil
			},
			Attach: near.ep.Attach,
		})
		if err != nil {
			t.Fatal(err)
		}
		l.Start()
		defer l.Close()
		time.Sleep(time.Minute)
		up, err := l.Ready(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !profiles.Serves(up.Session, rpc.ProfileID) || dialled != 3 {
			t.Errorf("after %d connections it is not known what the partner serves", dialled)
		}
	})
}

// A partner that asks what there is here can be asked, too.
func TestAPartnerThatAsksIsAskedAfterAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimple(t, false)
		l := s.connects(partner.Options{})
		defer l.Close()
		var d partner.Directory
		d.Set([]*partner.Link{l})
		time.Sleep(time.Hour)
		if n := s.asked.Load(); n != 1 {
			t.Fatalf("it was asked %d times", n)
		}
		if !d.Asked("spiffe://b.example/swpd") {
			t.Fatal("it is no partner")
		}
		synctest.Wait()
		if n := s.asked.Load(); n < 2 {
			t.Errorf("it was asked %d times", n)
		}
	})
}
