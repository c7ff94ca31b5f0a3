package conformance

import (
	"fmt"
	"slices"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/vectors"
)

// buildMCP returns what sets an endpoint with the MCP mapping into what it is
// part of.
func buildMCP(setup string) (func(*stage) error, error) {
	switch setup {
	case vectors.Serve:
		return serving(func(s *stage) ([]*profiles.Profile, error) {
			return []*profiles.Profile{witnessed(s, s.mapping(scriptedServer{s}).Profile())}, nil
		}), nil
	case vectors.Relay:
		return buildRelay, nil
	case vectors.Partner:
		return buildPartner, nil
	case vectors.Gateway, vectors.GatewayFailing, vectors.GatewayWithoutMCP:
		return buildGateway, nil
	case vectors.Front:
		return buildFront, nil
	}
	return nil, fmt.Errorf("%w: nothing here plays setup %q", ErrNotPlayed, setup)
}

// pocProfiles are the profiles for the poc_ vectors: 1, and 12 with the method that one of
// them calls.
func pocProfiles(s *stage) ([]*profiles.Profile, error) {
	calls, err := rpc.New(rpc.Options{Methods: map[string]rpc.Method{
		"demo.echo": {Inline: func(_ *profiles.Request, params []byte) ([]byte, error) { return params, nil }},
	}})
	return []*profiles.Profile{
		witnessed(s, s.mapping(scriptedServer{s}).Profile()),
		witnessed(s, calls),
	}, err
}

// mapping makes a Mapping with one server behind it, or none.
func (s *stage) mapping(server mcpmap.Server) *mcpmap.Mapping {
	opts := mcpmap.Options{CallTimeout: never, LongIdle: never, SessionGrace: never}
	if server != nil {
		opts.Backend, _ = mcpmap.NewTable(map[string]mcpmap.Server{"server": server}, "server") // cannot fail
	}
	m := mcpmap.New(opts)
	s.onClose(m.Close)
	return m
}

// scriptedServer is an MCP server that sends what the App steps make it say.
// Without steps it answers each request at once, with an empty result.
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
	v.s.app.hold(heldExchange{
		takes: func(_ string, a *e1.Envelope) bool {
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
