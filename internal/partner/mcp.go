package partner

import (
	"bytes"
	"context"
	"errors"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// Backend is the MCP servers of this endpoint and, as partner/server, those of
// partners. It implements mcpmap.Backend.
type Backend struct {
	Local     mcpmap.Backend // what has no slash in its name
	Directory *Directory

	// Client returns the calling side of a session: mcpmap.Mapping.Client of the
	// mapping that serves it.
	Client func(profiles.Session) *mcpmap.Client
}

// Targets implements mcpmap.Backend. For connected partners it names the servers
// that they offer themselves.
func (b *Backend) Targets() (names []string, def string) {
	names, def = b.Local.Targets()
	names = append([]string{}, names...)
	for _, l := range b.Directory.Links() {
		for _, target := range l.Targets() {
			names = append(names, l.Name()+"/"+target)
		}
	}
	return names, def
}

// Server implements mcpmap.Backend. A server of a partner is known by the name of
// the partner: whether it has one of that name is for the partner to say. The name of the
// partner alone is its default server.
func (b *Backend) Server(name string) (mcpmap.Server, bool) {
	if s, ok := b.Local.Server(name); ok {
		return s, true
	}
	if l := b.Directory.find(name); l != nil {
		return &server{link: l, client: b.Client}, true // its default server
	}
	l, rest, ok := b.Directory.Split(name)
	if !ok {
		return nil, false
	}
	return &server{link: l, target: rest, client: b.Client}, true
}

// server is an MCP server of a partner. It implements mcpmap.Server.
type server struct {
	link   *Link
	target string
	client func(profiles.Session) *mcpmap.Client
}

// Do implements mcpmap.Server.
func (s *server) Do(x *mcpmap.Exchange) {
	call, passage := s.call(x), x.Passage()
	ctx, cancel := cancellable(x)
	go func() {
		defer cancel(nil)
		up, err := s.ready(ctx)
		if err == nil {
			_, err = s.pass(ctx, up, x, passage, call)
		}
		if err != nil {
			x.Fail(mcpmap.Failure(err))
		}
	}()
}

// Connect implements mcpmap.Server. The session at the partner is opened by the
// first request.
func (s *server) Connect(client mcpmap.Counterpart) (mcpmap.Conversation, error) {
	return newConversation(s, client), nil
}

// call is a request as it goes on. The octets are its own.
func (s *server) call(x *mcpmap.Exchange) *mcpmap.Call {
	c := &mcpmap.Call{Target: s.target, Octets: bytes.Clone(x.Message.Octets())}
	for _, p := range x.Params() {
		c.Params = append(c.Params, string(p))
	}
	c.Events.Notification = func(octets []byte) {
		x.Pace(x.Context())
		x.Notify(octets)
	}
	return c
}

// cancellable returns the context of an exchange. It ends with it, and with the
// client's own octets if the client cancels.
func cancellable(x *mcpmap.Exchange) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(x.Context()))
	x.OnCancel(func(octets []byte) {
		if octets == nil {
			cancel(nil)
			return
		}
		cancel(&mcpmap.Cancellation{Octets: bytes.Clone(octets)})
	})
	return ctx, cancel
}

// ready returns the session to the partner, if it knows of targets: one that does
// not would run at its default server what is meant for another.
func (s *server) ready(ctx context.Context) (*Up, error) {
	up, err := s.link.Ready(ctx)
	if err != nil {
		return nil, err
	}
	if s.target != "" && !profiles.Heeds(up.Session, mcpmap.ProfileID, mcpmap.ExtTarget) {
		return nil, s.link.ignorant("extension 16 of MCP, the name of a server")
	}
	return up, nil
}

// pass passes a request on and its answer back, which ends the exchange. It returns
// the session that an initialize has opened.
func (s *server) pass(ctx context.Context, up *Up, x *mcpmap.Exchange, p profiles.Passage, call *mcpmap.Call) (session string, err error) {
	ctx, call.Extensions, err = s.link.onward(ctx, p, profiles.Onward{}, nil)
	if err != nil {
		return "", err
	}
	result, err := s.client(up.Session).Do(ctx, call)
	switch {
	case errors.Is(err, mcpmap.ErrCancelled):
		return "", nil // the exchange is over
	case err != nil:
		return "", err
	}
	if failure := result.Error(); failure != nil {
		s.refused(failure, x.Peer().Identity, call.Octets)
		x.FinishFailed(result.Octets, result.Status)
	} else {
		x.FinishStatus(result.Octets, result.Status)
	}
	return result.Session, nil
}
