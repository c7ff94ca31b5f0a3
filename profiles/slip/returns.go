package slip

import (
	"sync"
	"time"

	"github.com/slimwire/swp/profiles"
)

// returns know where messages came from that were passed on, so that a SLIP_ERR finds
// its way back. Above the bound the oldest are forgotten.
type returns struct {
	bound int
	now   func() time.Time

	mu    sync.Mutex
	of    map[string]*origin // by the msg_id that it was passed on with
	order []*origin          // the oldest first; some may be answered already
}

// origin is where a message came from.
type origin struct {
	session profiles.Session
	msgID   []byte

	to   profiles.Session // that it was passed on to
	sent string           // its msg_id there
	at   time.Time
}

// expect notes a message that is about to be passed on.
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

// take returns where the message of a msg_id came from, once, if it was passed on to
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
