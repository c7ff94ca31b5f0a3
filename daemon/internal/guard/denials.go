package guard

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/profiles"
)

// denials writes the log lines of denials. Each identity has a rate of its own, so that one
// that is denied often hides no other. A denial above the rate is in the next line of its
// identity, in times. The zero value with a log is ready.
type denials struct {
	log *zap.Logger

	mu    sync.Mutex
	of    map[string]*denied // by identity
	timer *time.Timer        // running while denials are not written
	ended bool               // close was called; then there is no rate
}

// denied are the denials of one identity.
type denied struct {
	tokens float64
	filled time.Time
	last   denial
	times  int // denials since the last line
}

type denial struct{ identity, profile, operation, name string }

const (
	deniedRate  = 1.0 // lines of an identity a second
	deniedBurst = 4.0

	// maxDenied is the number of identities with a separate rate. Further ones share one.
	maxDenied = 4096
)

// add writes a line, or counts the denial for the next one.
func (d *denials) add(one denial) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, key := time.Now(), one.identity
	of := d.of[key]
	if of == nil && len(d.of) >= maxDenied {
		d.forget(now)
		if len(d.of) >= maxDenied {
			key = ""
			of = d.of[key]
		}
	}
	if of == nil {
		of = &denied{tokens: deniedBurst, filled: now}
		if d.of == nil {
			d.of = make(map[string]*denied)
		}
		d.of[key] = of
	}
	of.last = one
	of.times++
	if !d.write(of, now) && d.timer == nil { // never after close
		d.timer = time.AfterFunc(time.Second, d.flush)
	}
}

// write writes what was denied to an identity, if it is below its rate.
func (d *denials) write(of *denied, now time.Time) bool {
	of.tokens = min(deniedBurst, of.tokens+deniedRate*max(0, now.Sub(of.filled).Seconds()))
	of.filled = now
	if of.tokens < 1 && !d.ended {
		return false
	}
	of.tokens--
	fields := []zap.Field{zap.String("profile", of.last.profile), zap.String("operation", of.last.operation), zap.String("name", of.last.name)}
	if of.times > 1 {
		fields = append(fields, zap.Int("times", of.times))
	}
	of.times = 0
	d.log.With(zap.Stringer("err_code", profiles.SecurityPolicy)).Warn("denied", part.From(of.last.identity, fields...)...)
	return true
}

// flush writes what waits for the rate of its identity.
func (d *denials) flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer = nil
	now, waits := time.Now(), false
	for _, of := range d.of {
		waits = of.times > 0 && !d.write(of, now) || waits
	}
	if waits {
		d.timer = time.AfterFunc(time.Second, d.flush)
	}
}

// forget removes identities of which nothing waits and whose rate is unused.
func (d *denials) forget(now time.Time) {
	for key, of := range d.of {
		if of.times == 0 && now.Sub(of.filled).Seconds()*deniedRate >= deniedBurst {
			delete(d.of, key)
		}
	}
}

// close writes what waits.
func (d *denials) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	for _, of := range d.of {
		if of.times > 0 {
			d.write(of, time.Now())
		}
	}
}
