package endpoint

import (
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

// AwaitRoom declares that this side waits as long as an honest peer may: an endpoint reads nothing
// for up to profiles.RoomWait while it has no room for a large frame. After a frame of more than
// 64 KiB the writes of the session may last until profiles.LargeWait has passed, instead of
// Bounds.Write. It is for chosen peers, not for every peer that connects.
func (s *Session) AwaitRoom() { s.awaits.Store(true) }

// writeBy returns when a write ends that begins now, and which belongs to a large frame or not. most is
// how long a peer may take that has room.
func (s *Session) writeBy(now time.Time, most time.Duration, large bool) time.Time {
	by := now.Add(most)
	if !s.awaits.Load() {
		return by
	}
	until := time.UnixMicro(s.awaiting.Load())
	if large {
		until = now.Add(profiles.LargeWait)
		s.awaiting.Store(until.UnixMicro())
	}
	if until.After(by) {
		return until
	}
	return by
}

// answeredAfter is called when the peer has answered a request before which, or in which, it was sent
// so many large frames. It has read them: if they are all, it waits for no room.
func (s *Session) answeredAfter(larges int64) {
	if at := s.awaiting.Load(); at > 0 && larges == s.larges.Load() && !s.conn.Multiplexed() {
		s.awaiting.CompareAndSwap(at, 0)
	}
}

// mayAwaitRoom reports whether the peer may wait for room for a frame of ours.
func (s *Session) mayAwaitRoom() bool {
	at := s.awaiting.Load()
	return at > 0 && time.Now().UnixMicro() < at
}

// MayWait reports whether a peer that sends nothing may be alive nevertheless: it waits for room for a
// large frame of ours, or a large frame of the peer waits here, and the messages behind it are not read. Of
// a host that has acknowledged nothing for profiles.LinkWait it is false. On a multiplexed
// connection messages have other streams.
func (s *Session) MayWait() bool {
	if s.conn.Multiplexed() || !s.without.Load() && !s.mayAwaitRoom() {
		return false
	}
	return transport.Unacknowledged(s.conn) < profiles.LinkWait
}
