package accesslog

import "time"

// maxRates is the number of identities with a separate rate. Further identities in the
// same second share one rate.
const maxRates = 4096

// rates limits identities to DeniedRate, each by a window of a second. The zero value
// is ready; the mutex of the Log guards it.
type rates struct {
	second int64
	used   map[string]int
}

// pass reports whether an identity is below its rate, and counts one line.
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
