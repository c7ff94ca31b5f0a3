package conformance

import (
	"context"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/vectors"
)

// buildGateway builds an endpoint that calls: JSON-RPC arrives on "json", and connection
// "a" leads to a peer of the input or to an endpoint of this implementation.
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
	g, client := s.newGateway(), m.Client(session)
	g.notify = func(octets []byte) { _ = client.Notify(g.ctx, "", "", octets) }
	g.ask = func(octets []byte, m *mcpmap.Message) {
		result, err := client.Do(g.ctx, &mcpmap.Call{Octets: octets, Events: mcpmap.Events{Notification: g.reply}})
		if err != nil {
			g.reply(mcpmap.AppendFailure(nil, m.ID(), err))
			return
		}
		g.reply(result.Octets)
	}
	s.peers[vectors.JSONConn] = g
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
	far, err := endpoint.New(endpoint.Options{Registry: reg, ErrorFrames: s.in.Policy.ErrorPath, Bounds: patientBounds()})
	if err != nil {
		return nil, err
	}
	s.onClose(func() { _ = far.Close() })
	here, there := transport.Pipe()
	far.Attach(there)
	s.peers["a"] = farEndpoint{ep: far}
	return s.attach(ep, here, "a"), nil
}

// farEndpoint is an endpoint of this implementation in the role of a peer. It needs no
// script.
type farEndpoint struct {
	noPeer
	ep *endpoint.Endpoint
}

func (f farEndpoint) hangUp() error { return f.ep.Close() }

// gateway is the JSON-RPC side of a calling endpoint, as a peer in the play: its input and
// output are JSON-RPC.
type gateway struct {
	s      *stage
	ctx    context.Context
	cancel context.CancelFunc

	ask    func(octets []byte, request *mcpmap.Message) // replies when the answer comes
	notify func(octets []byte)                          // does not wait for an answer

	// Guarded by the stage's mu.
	calls  int // in flight
	hungUp bool
	out    [][]byte
	taken  int
}

func (s *stage) newGateway() *gateway {
	g := &gateway{s: s}
	g.ctx, g.cancel = context.WithCancel(s.ctx)
	return g
}

func (g *gateway) send(octets []byte, _ bool) span {
	var m mcpmap.Message
	if err := m.Scan(octets); err != nil {
		g.reply(mcpmap.AppendMalformed(nil, nil, err))
		return span{1, 0}
	}
	if m.Kind() == mcpmap.Notification {
		g.notify(octets)
		return span{1, 0}
	}
	g.s.change(func() { g.calls++ })
	g.s.tasks.Go(func() {
		g.ask(octets, &m)
		g.s.change(func() { g.calls-- })
	})
	return span{1, 0} // JSON-RPC has no verdict
}

func (g *gateway) altered() bool { return false }

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
