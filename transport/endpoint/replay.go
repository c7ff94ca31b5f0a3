package endpoint

import "time"

// maxReplayIDs is how many msg_ids one connection's replay window holds.
const maxReplayIDs = 65_536

// replay remembers the msg_ids of messages already handled, for the optional
// replay window. It is guarded by its session's mutex.
type replay struct {
	seen  map[string]time.Time
	order []string // ring of ids in order of arrival
	next  int
}

// repeated reports whether id was handled less than window ago.
func (r *replay) repeated(id []byte, now time.Time, window time.Duration) bool {
	at, ok := r.seen[string(id)]
	return ok && now.Sub(at) < window
}

// add remembers id; over the bound the oldest id is forgotten.
func (r *replay) add(id []byte, now time.Time) {
	key := string(id)
	if r.seen == nil {
		r.seen = make(map[string]time.Time)
	}
	if _, known := r.seen[key]; known {
		r.seen[key] = now
		return
	}
	r.seen[key] = now
	if len(r.order) < maxReplayIDs {
		r.order = append(r.order, key)
		return
	}
	delete(r.seen, r.order[r.next])
	r.order[r.next] = key
	r.next = (r.next + 1) % maxReplayIDs
}
