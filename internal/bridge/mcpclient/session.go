package mcpclient

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
)

// clientSession is the session of a legacy client, if it has one.
type clientSession struct {
	c    *Conversation
	turn chan struct{}  // held by the goroutine that takes it up
	work sync.WaitGroup // follow

	mu      sync.Mutex
	open    bool             // the client has one
	opening []byte           // the client's initialize
	agreed  agreement        // what its server has answered
	told    []setting        // what else a new session has to be told
	at      profiles.Session // where it is known; nil: to be found out
	id      string           // its name there; empty if the peer gives none, or has it no more
	over    error            // why it cannot be taken up any more
	release func()           // of the Hold
	unheard context.CancelFunc
}

func newSession(c *Conversation) *clientSession {
	return &clientSession{c: c, turn: make(chan struct{}, 1)}
}

func (s *clientSession) name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// The error for a message of a session that the peer no longer had. The server has
// not seen the request.
var errLost = &profiles.Error{
	Code: profiles.NotFound, Detail: "mcp_session", Text: "the session had ended at the server; a new one begins with the next request", Retryable: true,
}

// The error of all that belongs to a session whose server came back as another.
var errOver = &profiles.Error{
	Code: profiles.NotFound, Detail: "mcp_session", Text: "the session has ended: the server began anew and speaks another version, or offers less than it did; initialize again, or start the client again",
}

// on returns the name of the session on a connection, after it was taken up there.
func (s *clientSession) on(ctx context.Context, link Link) (string, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	s.mu.Lock()
	open, at, id, over := s.open, s.at, s.id, s.over
	s.mu.Unlock()
	switch {
	case !open || over != nil:
		return "", over
	case at == link.Session:
		return id, nil
	}
	if id != "" {
		has, err := s.resume(ctx, link, id)
		if has || err != nil {
			return id, err
		}
	}
	return s.again(ctx, link)
}

// resume takes the session up on a connection. It reports whether the peer has it; where
// that cannot be asked the next request shows it.
func (s *clientSession) resume(ctx context.Context, link Link, id string) (bool, error) {
	if err := link.MCP.Resume(ctx, s.c.o.Target, id, s.c.events(link)); err != nil {
		return false, err
	}
	if link.RPC {
		has, err := s.known(ctx, link, id)
		if !has || err != nil {
			link.MCP.Leave(s.c.o.Target, id)
			return false, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = link.Session
	return true, nil
}

// known asks the peer whether it has the session. That also binds the session to the
// connection there.
func (s *clientSession) known(ctx context.Context, link Link, id string) (bool, error) {
	stream, end, err := s.listen(ctx, link, id)
	if err != nil {
		return false, err
	}
	defer end()
	// Answers on a lane arrive in order: that of listen is there with that of
	// swp.sync.
	if _, err := rpc.Call(ctx, stream.lane, rpc.MethodSync, nil); err != nil {
		return false, err
	}
	now, cancel := context.WithCancel(ctx)
	cancel()
	_, err = stream.Recv(now)
	failed := (*rpc.Error)(nil)
	switch {
	case errors.Is(err, context.Canceled):
		return true, ctx.Err() // it listens
	case !errors.As(err, &failed):
		return false, err
	case failed.Retryable:
		return false, &profiles.Error{Code: profiles.RateLimitExceeded, Detail: "mcp_session", Text: failed.Message, Pace: true, Retryable: true}
	}
	return failed.Code == rpc.CodeUnknownMethod, nil // then the next request shows it
}

// listening is a swp.mcp.listen under way.
type listening struct {
	*rpc.Stream
	lane profiles.Lane
}

// listen has the peer tell what the server of the session says on its own account.
func (s *clientSession) listen(ctx context.Context, link Link, id string) (l listening, end func(), err error) {
	if l.lane, err = link.Session.Open(ctx); err != nil {
		return l, nil, err
	}
	if l.Stream, err = rpc.Open(ctx, l.lane, mcpmap.MethodRPCListen, mcpmap.SessionParams(s.c.o.Target, id)); err != nil {
		_ = l.lane.Close()
		return l, nil, err
	}
	return l, func() {
		l.Close()
		_ = l.lane.Close()
	}, nil
}

// again opens a new session with the initialize message of the client.
func (s *clientSession) again(ctx context.Context, link Link) (string, error) {
	s.mu.Lock()
	opening, before, told := s.opening, s.agreed, slices.Clone(s.told)
	s.id, s.at = "", nil
	s.mu.Unlock()
	result, err := link.MCP.Do(ctx, &mcpmap.Call{Target: s.c.o.Target, Octets: opening, Events: s.c.events(link)})
	if err != nil {
		return "", err
	}
	now, ok := agreementOf(result.Octets)
	if !ok {
		return "", refusedAnew(result.Octets)
	}
	if !now.covers(before) {
		s.mu.Lock()
		s.over = errOver
		s.mu.Unlock()
		s.end(ctx, link, result.Session)
		return "", errOver
	}
	for _, t := range told {
		if err := t.repeat(ctx, link, s.c.o.Target, result.Session); err != nil {
			return "", err
		}
	}
	s.mu.Lock()
	s.at, s.id = link.Session, result.Session
	s.mu.Unlock()
	for _, changed := range before.changes() {
		s.c.write(changed)
	}
	return result.Session, nil
}

// answered notes what an answer of the server means for the session.
func (s *clientSession) answered(m *mcpmap.Message, octets []byte, link Link, id string, result *mcpmap.Result) (*mcpmap.Result, error) {
	switch {
	case m.Modern():
	case m.Is(mcpmap.MethodInitialize):
		s.opened(octets, link, result)
	case result.Status == http.StatusNotFound && id != "":
		s.forget(id)
		return nil, errLost
	default:
		s.note(m, octets, result)
	}
	return result, nil
}

// opened begins a session by the client's initialize.
func (s *clientSession) opened(octets []byte, link Link, result *mcpmap.Result) {
	agreed, ok := agreementOf(result.Octets)
	if !ok {
		return
	}
	s.mu.Lock()
	before, at := s.id, s.at
	if s.release == nil {
		s.release = s.c.o.Peer.Hold()
	}
	s.open, s.over, s.opening, s.agreed, s.told = true, nil, octets, agreed, nil
	s.at, s.id = link.Session, result.Session
	s.mu.Unlock()
	if before != "" && at == link.Session {
		ctx, cancel := context.WithTimeout(s.c.ctx, goodbye)
		defer cancel()
		s.end(ctx, link, before)
	}
	if link.RPC && result.Session != "" {
		s.follow()
	}
}

// forget notes that the peer does not have the session any more.
func (s *clientSession) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == id {
		s.at, s.id = nil, ""
	}
}

// moved notes that where the session is has to be asked again.
func (s *clientSession) moved(from profiles.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == from {
		s.at = nil
	}
}

// pauses are those between attempts to take the session up while the client says nothing.
var pauses = backoff.Exponential{First: 250 * time.Millisecond, Longest: 15 * time.Second}

// follow has the session follow from one connection to the next, and heard there.
func (s *clientSession) follow() {
	ctx, cancel := context.WithCancel(s.c.ctx)
	s.mu.Lock()
	before := s.unheard
	s.unheard = cancel
	s.mu.Unlock()
	if before != nil {
		before()
	}
	s.work.Go(func() {
		for failures := 0; ctx.Err() == nil && !s.ended(); failures++ {
			began := time.Now()
			s.hear(ctx)
			if time.Since(began) > pauses.Longest {
				failures = 0
			}
			_ = backoff.Wait(ctx, backoff.Jitter(pauses.After(failures)))
		}
	})
}

func (s *clientSession) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over != nil
}

// hear takes the session up on the connection there is, and returns when the peer tells
// no more of it: the connection or the session has ended, or the peer is about to.
func (s *clientSession) hear(ctx context.Context) {
	link, err := s.c.o.Peer.Link(ctx)
	if err != nil {
		return
	}
	id, err := s.on(ctx, link)
	if err != nil || id == "" || !link.RPC {
		return
	}
	stream, end, err := s.listen(ctx, link, id)
	if err != nil {
		return
	}
	defer end()
	for err == nil {
		_, err = stream.Recv(ctx)
	}
	if unknown := (*rpc.Error)(nil); errors.As(err, &unknown) && unknown.Code == rpc.CodeUnknownMethod {
		select { // it does without
		case <-link.Session.Context().Done():
		case <-ctx.Done():
		}
	}
	s.moved(link.Session)
}

// leave ends the session at the peer. That it fails is of no consequence: the peer ends
// it by itself after a while.
func (s *clientSession) leave(ctx context.Context) {
	s.mu.Lock()
	id, at, release, unheard := s.id, s.at, s.release, s.unheard
	s.open, s.id, s.at, s.release = false, "", nil, nil
	s.mu.Unlock()
	if unheard != nil {
		unheard()
	}
	if release != nil {
		defer release()
	}
	if id == "" || at == nil || at.Context().Err() != nil {
		return
	}
	if link, err := s.c.o.Peer.Link(ctx); err == nil && link.Session == at {
		s.end(ctx, link, id)
	}
}

// end ends a session by its name.
func (s *clientSession) end(ctx context.Context, link Link, id string) {
	if id != "" && link.RPC {
		_, _ = rpc.Call(ctx, link.Session, mcpmap.MethodRPCClose, mcpmap.SessionParams(s.c.o.Target, id))
	}
	link.MCP.Leave(s.c.o.Target, id)
}
