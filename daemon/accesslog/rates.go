package accesslog

import "time"

// maxRates is how many identities are told apart. What is more of them in one second
// than that shares a bucket.
const maxRates = 4096

// rates holds identities to DeniedRate, each by a window of a second. The zero value
// is ready; the mutex of the Log guards it.
type rates struct {
	second int64
	used   map[string]int
}

// pass takes a line of an identity, if it has one left in this second.
func (r *rates) pass(identity string, now time.Time) bool {
	if second := now.Unix(); r.used == nil || second != r.second {
		r.second = second
		if r.used == nil || len(r.used) > 0 {
			r.used = make(map[string]int)
		}
	}
	if _, known := r.used[identity]; !known && len(r.used) >= maxRates {
		identity = ""
	}
	r.used[identity]++
	return r.used[identity] <= DeniedRate
}
