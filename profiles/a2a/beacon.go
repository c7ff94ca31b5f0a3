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
	s     *Service
	key   beaconKey
	timer *time.Timer
}

type beaconKey struct {
	session profiles.Session
	agentID string
}

// beaconInterval is a fifth of the time after which a session with nothing in
// flight is idle.
const beaconInterval = 2 * time.Minute

// Declare tells the peer of a session that an agent is here which carries out
// tasks of some kinds: those of the Workers. The Handshake is sent at once, and
// again every two minutes as long as the session lives, so that a session on
// which nothing but work is awaited is not idle. A later Declare of the same
// agent_id on the same session replaces the kinds. A peer that refuses it has no
// way to say so in this profile.
func (s *Service) Declare(ctx context.Context, session profiles.Session, agentID string, kinds []string) error {
	m := HandshakeBody{AgentID: []byte(agentID)}
	for _, kind := range kinds {
		m.Capabilities = append(m.Capabilities, []byte(kind))
	}
	env := handshake(&m, s.instance)
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

// add has b repeat m, in place of an older beacon of its key. It returns false
// once the Service is closed.
func (bs *beacons) add(b *beacon, m HandshakeBody) bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.closed {
		return false
	}
	if old := bs.open[b.key]; old != nil {
		old.timer.Stop()
	}
	bs.open[b.key] = b
	b.repeat(m)
	return true
}

// close stops all beacons, and those to come.
func (bs *beacons) close() {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.closed = true
	for _, b := range bs.open {
		b.timer.Stop()
	}
	clear(bs.open)
}

// repeat has the Handshake sent again. The caller holds the lock of the beacons.
func (b *beacon) repeat(m HandshakeBody) {
	b.timer = b.s.later(beaconInterval, func() { b.send(m) })
}

// send sends the Handshake again. It does not wait for a slow peer for longer than
// until the next one is due.
func (b *beacon) send(m HandshakeBody) {
	ctx, cancel := context.WithTimeout(b.s.ctx, beaconInterval)
	defer cancel()
	if b.key.session.Send(ctx, handshake(&m, b.s.instance)) != nil && b.key.session.Context().Err() != nil {
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
	b.timer.Stop()
}
