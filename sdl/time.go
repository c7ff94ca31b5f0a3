package sdl

import "time"

// ParseTime reads a timestamp: RFC 3339 in UTC, written with Z or +00:00, with a
// fraction of any length of which nanoseconds are kept (§2.3).
func ParseTime(s string) (t time.Time, ok bool) {
	const whole = len("2006-01-02T15:04:05")
	if len(s) <= whole {
		return t, false
	}
	rest := s[whole:]
	nanos := 0
	if rest[0] == '.' {
		n := 1
		for unit := 100_000_000; n < len(rest) && '0' <= rest[n] && rest[n] <= '9'; n++ {
			nanos += int(rest[n]-'0') * unit
			unit /= 10
		}
		if n == 1 {
			return t, false
		}
		rest = rest[n:]
	}
	if rest != "Z" && rest != "+00:00" {
		return t, false
	}
	t, err := time.Parse("2006-01-02T15:04:05", s[:whole])
	return t.Add(time.Duration(nanos)), err == nil
}

// FormatTime returns a timestamp in the form of the wire: whole seconds and Z.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// Over reports whether a time has come. A time equal to now counts as over (§2.3).
func Over(t, now time.Time) bool { return !t.After(now) }
