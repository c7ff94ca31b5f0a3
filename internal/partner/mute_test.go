package partner_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// simple is an endpoint of MCP and A2A that ends a connection for anything else, or leaves
// it unanswered.
type simple struct {
	t      *testing.T
	link   *endpoint.Endpoint // of the link's side
	silent bool
	dialed atomic.Int32
	asked  atomic.Int32
}

func newSimple(t *testing.T, silent bool) *simple {
	t.Helper()
	calls, err := rpc.New(rpc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := profiles.NewRegistry(calls)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: r, Reserved: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ep.Close() })
	return &simple{t: t, link: ep, silent: silent}
}

// dial connects the link to it. Frames are read as they are: there is nothing of this
// project on the other side.
func (s *simple) dial() transport.Conn {
	s.dialed.Add(1)
	near, far := transport.NewPipe(transport.PipeOptions{A: "spiffe://a.example/swpd", B: "spiffe://b.example/swpd"})
	go func() {
		stream, err := far.Accept(context.Background())
		if err != nil {
			return
		}
		head := make([]byte, 4096)
		limits := e1.Limits{}.WithDefaults()
		for {
			n, err := stream.Read(head)
			if err != nil {
				return
			}
			var env e1.Envelope
			if n > 4 && env.Decode(head[4:n], &limits) == nil && env.ProfileID == rpc.ProfileID && env.MsgType == rpc.TypeReq { // a question that is given up is taken back, too
				s.asked.Add(1)
				if !s.silent {
					_ = far.Close(0)
					return
				}
			}
		}
	}()
	return near
}

func (s *simple) connects(o partner.Options) *partner.Link {
	s.t.Helper()
	o.Name, o.Identity, o.Self = "b", "spiffe://b.example/swpd", func() string { return "spiffe://a.example/swpd" }
	o.Addresses = []transport.Addr{{Transport: "tls", Host: "b.example", Port: 1}}
	o.Dial = func(context.Context, transport.Addr) (transport.Conn, error) { return s.dial(), nil }
	o.Attach = s.link.Attach
	l, err := partner.New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	l.Start()
	return l
}

// A partner that knows no RPC takes a question about it for a fault.
func TestAPartnerThatAnswersNoQuestionIsAskedOnce(t *testing.T) {
	for name, silent := range map[string]bool{"it ends the session": false, "it says nothing": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimple(t, silent)
				connections := map[bool]int32{false: 2, true: 1}[silent]
				l := s.connects(partner.Options{})
				defer l.Close()
				time.Sleep(24 * time.Hour)
				up, err := l.Ready(t.Context())
				if err != nil || s.asked.Load() != 1 || s.dialed.Load() != connections {
					t.Fatalf("%v after %d connections and %d questions", err, s.dialed.Load(), s.asked.Load())
				}
				if profiles.Serves(up.Session, mcpmap.ProfileID) {
					t.Error("it is taken to serve what nobody has said that it serves")
				}
				if on, listed, asked := l.Lists(rpc.MethodReceipt); on == nil || listed || asked {
					t.Errorf("it is taken to have answered: %v, %v", listed, asked)
				}
			})
		})
	}
}

func TestAPartnerWhoseProfilesAreKnownIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimple(t, false)
		l := s.connects(partner.Options{Profiles: []uint64{mcpmap.ProfileID, a2a.ProfileID}})
		defer l.Close()
		time.Sleep(24 * time.Hour)
		up, err := l.Ready(t.Context())
		if err != nil || s.asked.Load() != 0 || s.dialed.Load() != 1 {
			t.Fatalf("%v after %d connections and %d questions", err, s.dialed.Load(), s.asked.Load())
		}
		if !profiles.Serves(up.Session, a2a.ProfileID) || profiles.Serves(up.Session, rpc.ProfileID) {
			t.Error("it serves other profiles than its entry says")
		}
	})
}

// A connection that is cut at the question looks like a partner without RPC. When the partner
// shows that it is not, it is asked, and who waits for it is told of it again: deliveries are
// published only where the partner is known to take them.
func TestAPartnerThatWasCutOffAtTheQuestionIsAskedWhenItShowsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const self, other = "spiffe://a.example/swpd", "spiffe://b.example/swpd"
		cut, near, far := newSimple(t, false), newEnd(t, other), newEnd(t, self)
		var d partner.Directory
		var serves []bool // what each Connected found
		dialled := 0
		l, err := partner.New(partner.Options{
			Name: "b", Identity: other, Self: func() string { return self }, Addresses: []transport.Addr{{Transport: "tls", Host: "b", Port: 1}},
			Dial: func(context.Context, transport.Addr) (transport.Conn, error) {
				if dialled++; dialled == 1 {
					return cut.dial(), nil
				}
				return far.pipe(), nil
			},
			Attach: near.ep.Attach,
			Observe: func(e partner.Event) {
				if e.What != partner.Connected {
					return
				}
				serves = append(serves, profiles.Serves(e.Up.Session, a2a.ProfileID))
				d.Asked(other) // it calls swp.info here
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		d.Set([]*partner.Link{l})
		l.Start()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !slices.Equal(serves, []bool{false, true}) || dialled != 2 {
			t.Errorf("it is known to serve profile a2a: %v, after %d connections", serves, dialled)
		}
		if up := l.Now(); up == nil || !profiles.Serves(up.Session, a2a.ProfileID) {
			t.Errorf("now there is %+v", up)
		}
	})
}
