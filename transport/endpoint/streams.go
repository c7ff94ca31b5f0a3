package endpoint

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

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

// streamWait bounds the time for which a message waits for a stream.
const streamWait = 5 * time.Second

// openStream opens a stream for an identity that needs a place for it. It waits until the identity
// has its turn and the peer permits a stream, for streamWait at most.
func (s *Session) openStream(ctx context.Context, who string) (*lane, error) {
	if s.streams == nil {
		return s.openLane(ctx, who)
	}
	if places := s.streams.places; places.Try(who) != fair.Taken {
		var stop context.CancelFunc
		ctx, stop = s.patience(ctx)
		defer stop()
		if err := places.Take(ctx, who); err != nil {
			return nil, err
		}
	}
	l, err := s.openLane(ctx, who)
	if err != nil {
		s.streams.places.Give(who)
		return nil, err
	}
	l.placed = true
	return l, nil
}

// openLane opens a stream for an identity that has a place for it, or needs none.
func (s *Session) openLane(ctx context.Context, who string) (*lane, error) {
	stream, err := s.permitted(ctx, who)
	if err != nil {
		return nil, err
	}
	l := s.newLane(stream, s.conn.Multiplexed())
	l.payer = who
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
	if _, waits := ctx.(waiter); !waits {
		var stop context.CancelFunc
		ctx, stop = s.patience(ctx)
		defer stop()
	}
	if err := s.streams.turns.Take(ctx, who); err != nil {
		return nil, err
	}
	defer s.streams.turns.Give(who)
	stream, err := s.conn.Open(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return stream, err
}

// DetailStreams is the detail of the error of a message that has found no stream.
const DetailStreams = "streams"

// waiter is the context of one that waits for a stream.
type waiter struct{ context.Context }

// patience returns a context that ends after streamWait, and with the session.
func (s *Session) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	late := time.AfterFunc(streamWait, func() { end(s.noStream()) })
	over := context.AfterFunc(s.ctx, func() { end(context.Cause(s.ctx)) })
	return waiter{ctx}, func() { late.Stop(); over(); end(nil) }
}

// noStream is the error of one that has waited for a stream for too long.
func (s *Session) noStream() *profiles.Error {
	name := s.peer.Identity
	if as := s.name.Load(); as != nil {
		name = *as
	}
	return profiles.Busy(DetailStreams, fmt.Sprintf(
		"no stream to %s was free for %v; it permits %d, which callers share", name, streamWait, s.streams.conn.Streams()))
}

// SetName sets what errors for callers name the peer by, in place of its identity.
func (s *Session) SetName(name string) { s.name.Store(&name) }

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
	return &common{s, controlKey}
}

// listenKey is the key of the stream of Listening in Session.shared. No profile has it.
const listenKey = 1<<64 - 2

// Listening returns the session for calls without an expected end, which wait for messages of the peer.
// They share a stream, which stays open, so that idle callers hold no streams.
func (s *Session) Listening() profiles.Caller { return &common{s, listenKey} }

// common makes calls on a stream that they share. Its key is that in Session.shared.
type common struct {
	s   *Session
	key uint64
}

// Call implements profiles.Caller. The peer may have ended the stream since the last call; then
// there is another one.
func (c *common) Call(ctx context.Context, env e1.Envelope) (profiles.Call, error) {
	s := c.s
	for again := true; ; again = false {
		l, err := s.borrow(ctx, c.key)
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
