package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/vectors"
)

// buildMCP returns what sets an endpoint with the MCP mapping into what it is
// part of.
func buildMCP(setup string) (func(*stage) error, error) {
	switch setup {
	case vectors.Serve:
		return serving(func(s *stage) []*profiles.Profile {
			return []*profiles.Profile{witnessed(s, s.mapping(scriptedServer{s}).Profile())}
		}), nil
	case vectors.Relay:
		return buildRelay, nil
	case vectors.Gateway, vectors.GatewayFailing, vectors.GatewayWithoutMCP:
		return buildGateway, nil
	}
	return nil, fmt.Errorf("%w: nothing here plays setup %q", ErrNotPlayed, setup)
}

// pocProfiles are those that the poc_ vectors know: 1, and 12 with the method
// that one of them calls.
func pocProfiles(s *stage) []*profiles.Profile {
	calls, err := rpc.New(rpc.Options{Methods: map[string]rpc.Method{
		"demo.echo": {Inline: func(_ *profiles.Request, params []byte) ([]byte, error) { return params, nil }},
	}})
	if err != nil {
		panic(err) // the table is the one above
	}
	return []*profiles.Profile{
		witnessed(s, s.mapping(scriptedServer{s}).Profile()),
		witnessed(s, calls),
	}
}

// mapping makes a Mapping with one server behind it, or none.
func (s *stage) mapping(server mcpmap.Server) *mcpmap.Mapping {
	var opts mcpmap.Options
	if server != nil {
		opts.Backend, _ = mcpmap.NewTable(map[string]mcpmap.Server{"server": server}, "server") // cannot fail
	}
	m := mcpmap.New(opts)
	s.onClose(m.Close)
	return m
}

// scriptedServer is an MCP server that says what the App steps make it say. If
// there are none it answers each request at once, with an empty result.
type scriptedServer struct{ s *stage }

func (v scriptedServer) Connect(mcpmap.Counterpart) (mcpmap.Conversation, error) {
	return scriptedConversation{v}, nil
}

func (v scriptedServer) Do(x *mcpmap.Exchange) {
	if !v.s.app.scripted {
		x.Finish(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`, x.Message.ID()))
		return
	}
	id, token := slices.Clone(x.Message.ID()), slices.Clone(x.Message.ProgressToken())
	v.s.app.hold(exchange{
		takes: func(a *e1.Envelope) bool {
			var m mcpmap.Message
			if m.Scan(a.Payload) != nil {
				return false
			}
			if m.Kind() == mcpmap.Notification {
				return m.Progressed() != nil && string(m.Progressed()) == string(token)
			}
			return string(m.ID()) == string(id)
		},
		answer: func(a *e1.Envelope) (bool, error) {
			if a.MsgType == uint64(mcpmap.Notification) {
				x.Notify(a.Payload)
				return false, nil
			}
			x.Finish(a.Payload)
			return true, nil
		},
		drop: func() { x.Fail(&profiles.Error{Code: profiles.Internal, Text: "the script has no answer"}) },
	})
	v.s.kept()
}

type scriptedConversation struct{ scriptedServer }

func (scriptedConversation) Notify(*mcpmap.Message) {}
func (scriptedConversation) Close()                 {}

// failingServer is an MCP server that does not work.
type failingServer struct{}

func (failingServer) Connect(mcpmap.Counterpart) (mcpmap.Conversation, error) {
	return failingConversation{}, nil
}

func (failingServer) Do(x *mcpmap.Exchange) {
	x.Fail(&profiles.Error{Code: profiles.Internal, Text: "the server does not work"})
}

type failingConversation struct{ failingServer }

func (failingConversation) Notify(*mcpmap.Message) {}
func (failingConversation) Close()                 {}

// buildRelay sets an endpoint between two connections: what "a" asks for is
// asked of "b".
func buildRelay(s *stage) error {
	hop := &relay{s: s}
	hop.ctx, hop.cancel = context.WithCancel(context.Background())
	s.onClose(func() { hop.cancel(); hop.tasks.Wait() })
	m := s.mapping(hop)
	ep, err := s.endpoint([]*profiles.Profile{witnessed(s, m.Profile())})
	if err != nil {
		return err
	}
	next, err := s.pipe(ep, "b")
	if err != nil {
		return err
	}
	hop.next = m.Client(next)
	_, err = s.pipe(ep, "a")
	return err
}

// relay is the MCP server that is really another peer. It passes on octets
// between the serving and the calling side of the mapping and has no eyes for
// them.
type relay struct {
	s      *stage
	next   *mcpmap.Client
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

func (r *relay) Connect(mcpmap.Counterpart) (mcpmap.Conversation, error) {
	return relayConversation{r}, nil
}

func (r *relay) Do(x *mcpmap.Exchange) {
	request := slices.Clone(x.Message.Octets())
	r.tasks.Go(func() {
		result, err := r.next.Do(r.ctx, &mcpmap.Call{Octets: request, Events: mcpmap.Events{Notification: x.Notify}})
		if err != nil {
			x.Fail(profiles.AsError(err))
			return
		}
		x.FinishStatus(result.Octets, result.Status)
	})
	r.s.kept()
}

type relayConversation struct{ *relay }

func (c relayConversation) Notify(m *mcpmap.Message) {
	_ = c.next.Notify(c.ctx, "", "", m.Octets()) // the queue of a pipe takes it at once
}

func (relayConversation) Close() {}

// buildGateway sets an endpoint that calls: JSON-RPC comes in on "json", and
// connection "a" leads to a peer of the input's or to an endpoint of ours.
func buildGateway(s *stage) error {
	m := s.mapping(nil)
	ep, err := s.endpoint([]*profiles.Profile{witnessed(s, m.Profile())})
	if err != nil {
		return err
	}
	var session *endpoint.Session
	if s.in.Setup == vectors.Gateway {
		session, err = s.pipe(ep, "a")
	} else {
		session, err = s.upstream(ep)
	}
	if err != nil {
		return err
	}
	s.peers[vectors.JSONConn] = s.newGateway(m.Client(session))
	return nil
}

// upstream connects the endpoint to another of ours: one whose MCP server
// fails, or one that has no profile 1.
func (s *stage) upstream(ep *endpoint.Endpoint) (*endpoint.Session, error) {
	list := []*profiles.Profile{s.mapping(failingServer{}).Profile()}
	if s.in.Setup == vectors.GatewayWithoutMCP {
		var err error
		if list[0], err = rpc.New(rpc.Options{}); err != nil {
			return nil, err
		}
	}
	reg, err := profiles.NewRegistry(list...)
	if err != nil {
		return nil, err
	}
	far, err := endpoint.New(endpoint.Options{Registry: reg, ErrorFrames: s.in.Policy.ErrorPath})
	if err != nil {
		return nil, err
	}
	s.onClose(func() { _ = far.Close() })
	here, there := transport.Pipe()
	far.Attach(there)
	s.peers["a"] = farEndpoint{ep: far}
	return s.attach(ep, here, "a"), nil
}

// farEndpoint is an endpoint of ours in the place of a peer. It speaks for
// itself.
type farEndpoint struct {
	noPeer
	ep *endpoint.Endpoint
}

func (f farEndpoint) hangUp() error { return f.ep.Close() }

// gateway is the JSON-RPC side of an endpoint that calls, as a peer of the
// play: what it is sent is JSON-RPC, and so is what comes back.
type gateway struct {
	s      *stage
	client *mcpmap.Client
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	// Guarded by the stage's mu.
	calls  int // in flight
	hungUp bool
	out    [][]byte
	taken  int
}

func (s *stage) newGateway(client *mcpmap.Client) *gateway {
	g := &gateway{s: s, client: client}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	s.onClose(func() { g.cancel(); g.tasks.Wait() })
	return g
}

func (g *gateway) send(octets []byte, _ bool) span {
	var m mcpmap.Message
	if err := m.Scan(octets); err != nil {
		g.reply(mcpmap.AppendFailure(nil, nil, err))
		return span{1, 0}
	}
	if m.Kind() == mcpmap.Notification {
		_ = g.client.Notify(g.ctx, "", "", octets)
		return span{1, 0}
	}
	g.s.change(func() { g.calls++ })
	g.tasks.Go(func() {
		result, err := g.client.Do(g.ctx, &mcpmap.Call{Octets: octets, Events: mcpmap.Events{Notification: g.reply}})
		if err != nil {
			g.reply(mcpmap.AppendFailure(nil, m.ID(), err))
		} else {
			g.reply(result.Octets)
		}
		g.s.change(func() { g.calls-- })
	})
	return span{1, 0} // there is no verdict on JSON-RPC
}

func (g *gateway) reply(octets []byte) { g.s.change(func() { g.out = append(g.out, octets) }) }

func (g *gateway) hangUp() error {
	g.s.change(func() { g.hungUp = true })
	g.cancel()
	return nil
}

func (g *gateway) ended() bool   { return g.hungUp && g.calls == 0 }
func (g *gateway) waiting() bool { return g.taken < len(g.out) }

func (g *gateway) next() []byte {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if g.taken == len(g.out) {
		return nil
	}
	g.taken++
	return g.out[g.taken-1]
}

func (g *gateway) last() []byte { return nil }
