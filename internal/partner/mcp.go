package partner

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// Backend provides the MCP servers of this endpoint and, as partner/server, those of
// partners. It implements mcpmap.Backend.
type Backend struct {
	Local     mcpmap.Backend // servers without a slash in their name
	Directory *Directory

	// Client returns the calling side of a session: mcpmap.Mapping.Client of the mapping
	// that serves it.
	Client func(profiles.Session) *mcpmap.Client
}

// Targets implements mcpmap.Backend. It lists servers of connected partners, but not of
// their partners.
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

// Server implements mcpmap.Backend. Any name with a known partner is accepted; the partner
// decides whether the server exists. The name of the partner alone means its default
// server.
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
		for again := true; ; again = false {
			up, err := s.ready(ctx)
			var result *mcpmap.Result
			if err == nil {
				result, err = s.send(ctx, up, x, passage, call)
			}
			switch {
			case errors.Is(err, mcpmap.ErrCancelled): // the exchange is over
			case again && (errors.Is(err, errDrained) || err == nil && result.Draining):
				continue // the partner has not carried it out
			case err != nil:
				x.Fail(mcpmap.Failure(err))
			default:
				s.answer(x, call, result)
			}
			return
		}
	}()
}

// Timeout implements mcpmap.Timed: the owner of the server says at the partner how long its calls
// may take, and the link notices a partner that is gone.
func (s *server) Timeout(*mcpmap.Message) time.Duration { return profiles.BehindWork }

// Connect implements mcpmap.Server. The session at the partner is opened by the
// first request.
func (s *server) Connect(client mcpmap.Counterpart) (mcpmap.Conversation, error) {
	return newConversation(s, client), nil
}

// call returns the request to forward, a copy.
func (s *server) call(x *mcpmap.Exchange) *mcpmap.Call {
	c := &mcpmap.Call{Target: s.target, Octets: bytes.Clone(x.Message.Octets()), Shared: true}
	for _, p := range x.Params() {
		c.Params = append(c.Params, string(p))
	}
	c.Events.Forward = func(octets []byte, keeps profiles.EndToEnd) {
		_ = x.Pace(x.Context()) // without the caller Forward counts a loss
		x.Forward(octets, keeps)
	}
	return c
}

// cancellable returns a context that ends with the exchange. If the client cancels, the
// cause has the octets of the client.
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

// local is the local name of the server.
func (s *server) local() string {
	if s.target == "" {
		return s.link.Name()
	}
	return s.link.Name() + "/" + s.target
}

// ready returns the session to the partner if the partner supports targets. Another one
// would run a request for a named server at its default server.
func (s *server) ready(ctx context.Context) (*Up, error) {
	up, err := s.link.Ready(ctx)
	if err != nil {
		return nil, err
	}
	if s.target != "" && !profiles.Heeds(up.Session, mcpmap.ProfileID, mcpmap.ExtTarget) {
		return nil, s.link.ignorant(up, "extension 16 of MCP, the name of a server")
	}
	return up, nil
}

// pass forwards a request and returns its answer, which ends the exchange. It returns the
// id of a session that initialize has opened.
func (s *server) pass(ctx context.Context, up *Up, x *mcpmap.Exchange, p profiles.Passage, call *mcpmap.Call) (session string, err error) {
	result, err := s.send(ctx, up, x, p, call)
	switch {
	case errors.Is(err, mcpmap.ErrCancelled):
		return "", nil // the exchange is over
	case err != nil:
		return "", err
	}
	s.answer(x, call, result)
	return result.Session, nil
}

// send sends a request and returns its answer. The error is mcpmap.ErrCancelled if the caller has ended
// the exchange.
func (s *server) send(ctx context.Context, up *Up, x *mcpmap.Exchange, p profiles.Passage, call *mcpmap.Call) (*mcpmap.Result, error) {
	ctx, extensions, err := s.link.Onward(ctx, x.Peer().Identity, p, profiles.Onward{Name: s.local()}, nil)
	if err != nil {
		return nil, err
	}
	call.Extensions = extensions
	if err := s.unpinned(ctx, up, x.Peer().Identity, call); err != nil {
		return nil, err
	}
	s.link.watch(up)
	result, err := s.client(up.Session).Do(ctx, call)
	switch {
	case err == nil:
		return result, nil
	case profiles.Misanswered(err):
		return nil, s.wrong(err, x.Peer().Identity, call.Octets)
	case errors.Is(err, mcpmap.ErrCancelled), errors.Is(err, context.Canceled): // of the caller, or the end of its session
		return nil, err
	}
	return nil, s.link.lost(ctx, up, err, false)
}

// answer ends the exchange with an answer. Tools whose calls are refused because of the pinned
// ones are removed from a list.
func (s *server) answer(x *mcpmap.Exchange, call *mcpmap.Call, result *mcpmap.Result) {
	x.Keep(result.Keeps)
	shown, err := s.shown(call.Octets, result.Octets)
	if err != nil {
		x.Fail(err)
		return
	}
	result.Octets = shown
	if failure := result.Error(); failure != nil {
		outcome := profiles.OutcomeFailed
		if s.refused(failure, x.Peer().Identity, call.Octets) {
			outcome = profiles.OutcomeRefusedByPartner
		}
		x.FinishAs(outcome, result.Octets, result.Status)
	} else {
		x.FinishStatus(result.Octets, result.Status)
	}
}
