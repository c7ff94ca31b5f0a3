package conformance

import (
	"slices"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/transport/endpoint"
)

// buildRelay sets an endpoint between two connections: what "a" asks for is
// asked of "b".
func buildRelay(s *stage) error {
	hop := &mcpHop{s: s}
	m := s.mapping(hop)
	return s.between(m, func(next *endpoint.Session) { hop.next = m.Client(next) })
}

// between sets an endpoint that serves m between two connections. onward is told of "b", before
// "a" is opened.
func (s *stage) between(m *mcpmap.Mapping, onward func(next *endpoint.Session)) error {
	ep, err := s.endpoint([]*profiles.Profile{witnessed(s, m.Profile())})
	if err != nil {
		return err
	}
	next, err := s.pipe(ep, "b")
	if err != nil {
		return err
	}
	onward(next)
	_, err = s.pipe(ep, "a")
	return err
}

// mcpHop is the MCP server that is really another peer. It passes on octets
// between the serving and the calling side of the mapping and has no eyes for
// them.
type mcpHop struct {
	s    *stage
	next *mcpmap.Client
}

func (r *mcpHop) Connect(mcpmap.Counterpart) (mcpmap.Conversation, error) {
	return mcpHopConversation{r}, nil
}

func (r *mcpHop) Do(x *mcpmap.Exchange) {
	request := slices.Clone(x.Message.Octets())
	r.s.tasks.Go(func() {
		result, err := r.next.Do(r.s.ctx, &mcpmap.Call{Octets: request, Events: mcpmap.Events{Notification: func(octets []byte) { x.Notify(octets) }}})
		if err != nil {
			x.Fail(profiles.AsError(err))
			return
		}
		x.FinishStatus(result.Octets, result.Status)
	})
}

type mcpHopConversation struct{ *mcpHop }

func (c mcpHopConversation) Notify(m *mcpmap.Message) {
	_ = c.next.Notify(c.s.ctx, "", "", m.Octets()) // the queue of a pipe takes it at once
}

func (mcpHopConversation) Close() {}
