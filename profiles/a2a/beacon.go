package a2a

import (
	"context"
	"sync"
	"time"

	"github.com/slimwire/swp/profiles"
)

// beacons are the Handshakes that are repeated.
type beacons struct {
	mu     sync.Mutex
	closed bool
	open   map[beaconKey]*beacon
}

// beacon repeats a Handshake.
type beacon struct {
	s    *Service
	key  beaconKey
	halt func() bool // stops the timer
}

type beaconKey struct {
	session profiles.Session
	agentID string
}

// beaconInterval is a fifth of the default idle timeout.
const beaconInterval = 2 * time.Minute

// Declare tells the peer of a session that an agent with the kinds of the Workers is
// available here. It sends the Handshake at once, and repeats it every two minutes while
// the session exists, so that a session without work is not idle. A later Declare of the
// same agent_id on the same session replaces the kinds. This profile has no message by
// which the peer could refuse the Handshake.
func (s *Service) Declare(ctx context.Context, session profiles.Session, agentID string, kinds []string) error {
	m := HandshakeBody{AgentID: []byte(agentID)}
	for _, kind := range kinds {
		m.Capabilities = append(m.Capabilities, []byte(kind))
	}
	env := s.handshake(&m)
	if err := new(HandshakeBody).Decode(env.Payload); err != nil {
		return err
	}
	if err := session.Send(ctx, env); err != nil {
		return err
	}
	b := &beacon{s: s, key: beaconKey{session, agentID}}
	if !s.beacons.add(b, m) {
		return errClosed
	}
	context.AfterFunc(session.Context(), b.stop)
	return nil
}

// add makes b repeat m, and replaces an older beacon with the same key. It returns false
// after Close of the Service.
func (bs *beacons) add(b *beacon, m HandshakeBody) bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.closed {
		return false
	}
	if old := bs.open[b.key]; old != nil {
		old.halt()
	}
	bs.open[b.key] = b
	b.repeat(m)
	return true
}

// close stops all beacons and prevents new ones.
func (bs *beacons) close() {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.closed = true
	for _, b := range bs.open {
		b.halt()
	}
	clear(bs.open)
}

// repeat schedules the next Handshake. The caller holds the lock of the beacons.
func (b *beacon) repeat(m HandshakeBody) {
	b.halt = b.s.later(beaconInterval, func() { b.send(m) })
}

// send sends the Handshake again. For a slow peer it waits at most until the next one is
// due.
func (b *beacon) send(m HandshakeBody) {
	ctx, cancel := context.WithTimeout(b.s.ctx, beaconInterval)
	defer cancel()
	if b.key.session.Send(ctx, b.s.handshake(&m)) != nil && b.key.session.Context().Err() != nil {
		return
	}
	bs := &b.s.beacons
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.open[b.key] == b {
		b.repeat(m)
	}
}

func (b *beacon) stop() {
	bs := &b.s.beacons
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.open[b.key] == b {
		delete(bs.open, b.key)
	}
	b.halt()
}
