package slip

import (
	"sync"
	"time"

	"github.com/slimwire/swp/profiles"
)

// returns records the origins of forwarded messages, so that a SLIP_ERR finds its way back.
// Above the limit the oldest are forgotten.
type returns struct {
	bound int
	now   func() time.Time

	mu    sync.Mutex
	of    map[string]*origin // by the forwarded msg_id
	order []*origin          // oldest first; may include answered ones
}

// origin is the origin of a forwarded message.
type origin struct {
	session profiles.Session
	msgID   []byte

	to   profiles.Session // session that it was forwarded to
	sent string           // msg_id on that session
	at   time.Time
}

// expect records a message before it is forwarded.
func (r *returns) expect(o *origin) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = make(map[string]*origin)
	}
	now := r.now()
	o.at = now
	for len(r.order) > 0 && (len(r.order) >= r.bound || now.Sub(r.order[0].at) >= returnable) {
		delete(r.of, r.order[0].sent)
		r.order[0] = nil
		r.order = r.order[1:]
	}
	r.of[o.sent] = o
	r.order = append(r.order, o)
}

// take returns and removes the origin of the message with a msg_id, if it was forwarded to
// this session.
func (r *returns) take(to profiles.Session, msgID []byte) *origin {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.of[string(msgID)]
	if o == nil || o.to != to || r.now().Sub(o.at) >= returnable {
		return nil
	}
	delete(r.of, o.sent)
	return o
}
