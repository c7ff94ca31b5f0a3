package endpoint

import (
	"context"
	"maps"
	"slices"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

// streams divides the streams that a session may open among the identities on whose behalf it
// opens them (profiles.WithCaller). Those of the session itself count as the owner's.
type streams struct {
	conn   transport.Bounded
	places *fair.Slots
	turns  *fair.Slots // one place: of who waits until the peer permits a stream
}

func newStreams(conn transport.Conn) *streams {
	bounded, ok := conn.(transport.Bounded)
	if !ok || !conn.Multiplexed() {
		return nil
	}
	return &streams{conn: bounded, places: fair.NewOwnSlots(bounded.Streams()), turns: fair.NewOwnSlots(1)}
}

// openStream opens a stream for an identity. It waits until the identity has its turn and the
// peer permits a stream.
func (s *Session) openStream(ctx context.Context, who string) (*lane, error) {
	if s.streams == nil {
		return s.openLane(ctx, who, false)
	}
	if err := s.wait(ctx, s.streams.places, who); err != nil {
		return nil, err
	}
	l, err := s.openLane(ctx, who, true)
	if err != nil {
		s.streams.places.Give(who)
	}
	return l, err
}

// openLane opens a stream for an identity that has a place for it, or needs none.
func (s *Session) openLane(ctx context.Context, who string, placed bool) (*lane, error) {
	stream, err := s.permitted(ctx, who)
	if err != nil {
		return nil, err
	}
	l := s.newLane(stream, s.conn.Multiplexed())
	l.placed, l.payer = placed, who
	return l, nil
}

// permitted opens a stream when the peer permits it. Those who wait for that have turns.
func (s *Session) permitted(ctx context.Context, who string) (transport.Stream, error) {
	if s.streams == nil {
		return s.conn.Open(ctx)
	}
	if stream, err := s.streams.conn.TryOpen(); stream != nil || err != nil {
		return stream, err
	}
	if err := s.wait(ctx, s.streams.turns, who); err != nil {
		return nil, err
	}
	defer s.streams.turns.Give(who)
	return s.conn.Open(ctx)
}

// wait takes a place for an identity. It fails at the end of ctx or of the session.
func (s *Session) wait(ctx context.Context, places *fair.Slots, who string) error {
	if places.Try(who) == fair.Taken {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	return places.Take(ctx, who)
}

// Streams returns who uses the streams that this side may open; the zero Pool if they have no
// bound.
func (s *Session) Streams() fair.Pool {
	if s.streams == nil {
		return fair.Pool{}
	}
	return s.streams.places.Pool("streams")
}

// Shared returns who uses what the callers of single sessions share: the requests in flight, the
// long exchanges, and the streams that this side opens. Sessions without callers are left out.
func (e *Endpoint) Shared() []fair.Pool {
	e.mu.Lock()
	sessions := slices.Collect(maps.Keys(e.sessions))
	e.mu.Unlock()
	var requests, long, streams []fair.Pool
	for _, s := range sessions {
		s.mu.Lock()
		requests, long = s.used(requests, &s.short), s.used(long, &s.long)
		s.mu.Unlock()
		if s.streams != nil && s.streams.places.Shared() {
			streams = append(streams, s.Streams())
		}
	}
	return []fair.Pool{
		fair.Join("requests of callers", requests...), fair.Join("long exchanges of callers", long...), fair.Join("streams for callers", streams...),
	}
}

// used appends the use of shares by callers. The caller holds mu.
func (s *Session) used(list []fair.Pool, shares *fair.Shares) []fair.Pool {
	if !shares.Shared() {
		return list
	}
	pool := shares.Pool("")
	for i, use := range pool.Most {
		pool.Most[i].Identity = s.peer.Identity
		if use.Identity != "" {
			pool.Most[i].Identity = profiles.OnBehalf(s.peer.Identity, use.Identity)
		}
	}
	return append(list, pool)
}

// controlKey is the key of the stream of Control in Session.shared. No profile has it.
const controlKey = 1<<64 - 1

// Control returns the session for calls about the connection itself, such as swp.info and
// swp.ping. They share a stream, which stays open and needs no place: callers that use all streams
// do not delay them.
func (s *Session) Control() profiles.Caller {
	if s.streams != nil {
		s.streams.places.Bound(s.streams.conn.Streams() - 1)
	}
	return (*control)(s)
}

// control is a Session as the result of Control.
type control Session

// Call implements profiles.Caller. The peer may have ended the stream since the last call; then
// there is another one.
func (c *control) Call(ctx context.Context, env e1.Envelope) (profiles.Call, error) {
	s := (*Session)(c)
	for again := true; ; again = false {
		l, err := s.borrow(ctx, controlKey)
		if err != nil {
			return nil, err
		}
		call, err := l.call(ctx, env, false)
		if err == nil {
			l.release()
			return call, nil
		}
		ended := again && s.conn.Multiplexed() && s.deaf(l)
		if ended {
			s.unshare(l)
		}
		l.release()
		if !ended {
			return nil, err
		}
	}
}

// deaf reports whether no answer can arrive on a stream any more.
func (s *Session) deaf(l *lane) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.deaf != nil
}
