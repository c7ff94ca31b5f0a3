package guard

import (
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
)

// denials writes a line for each denial. Identities take turns at the rate of these lines: a
// flood of denials of one identity delays a line of another by one line. A denial that is
// repeated within a second is counted in its next line. The zero value with a log is ready.
type denials struct {
	log *zap.Logger

	mu     sync.Mutex
	known  map[denial]*told
	of     map[string]int // entries of known, by identity; of a peer those of its callers, too
	due    fair.Queue[*told]
	tokens float64
	filled time.Time
	timer  *time.Timer // running while there are entries
	ended  bool        // close was called; then there is no rate
}

// denial is what was denied to an identity. Without a profile it stands for all denials above
// a bound.
type denial struct{ identity, profile, operation, name, why string }

// told is a denial of the last second, or one whose line is due.
type told struct {
	denial
	times  int // since its last line
	queued bool
	last   time.Time // its last line
}

// The rate of the class of these lines; boundlog has none for it.
const (
	denialRate  = 8 // lines a second
	denialBurst = 4

	repeatEvery = time.Second // between two lines of one denial

	// Above the bound of an identity, of a peer with its callers, and of all, denials share
	// one line of the identity, of the peer, or of all.
	maxDenialsOfOne  = 64
	maxDenialsOfPeer = maxDenials / 8
	maxDenials       = 4096
)

// add counts a denial, and writes its line as soon as the rate allows that.
func (d *denials) add(one denial) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	e := d.entry(one)
	e.times++
	if !e.queued && now.Sub(e.last) >= repeatEvery {
		d.enqueue(e)
	}
	d.write(now)
	d.schedule()
}

// entry returns the entry of a denial: a separate or, above the bounds, a shared one.
func (d *denials) entry(one denial) *told {
	peer := profiles.Link(one.identity)
	for _, share := range []denial{one, {identity: one.identity}, {identity: peer}, {}} {
		e := d.known[share]
		switch {
		case e != nil:
			return e
		case share == one && (d.of[one.identity] >= maxDenialsOfOne || len(d.known) >= maxDenials),
			share.identity != peer && share.identity != "" && d.of[peer] >= maxDenialsOfPeer,
			share.identity != "" && len(d.known) >= 2*maxDenials:
			continue
		}
		if d.known == nil {
			d.known, d.of = make(map[denial]*told), make(map[string]int)
		}
		e = &told{denial: share}
		d.known[share] = e
		d.count(share.identity, 1)
		return e
	}
	panic("guard: no entry for a denial") // the last one is always made
}

// count adds n to the entries of an identity, and of its peer.
func (d *denials) count(identity string, n int) {
	for _, who := range slices.Compact([]string{identity, profiles.Link(identity)}) {
		if d.of[who] += n; d.of[who] == 0 {
			delete(d.of, who)
		}
	}
}

func (d *denials) enqueue(e *told) {
	e.queued = true
	d.due.Push(e.identity, e)
}

// write writes the lines that are due, as many as the rate allows.
func (d *denials) write(now time.Time) {
	d.tokens = min(denialBurst, d.tokens+denialRate*now.Sub(d.filled).Seconds()) // full at the first call
	d.filled = now
	for d.tokens >= 1 || d.ended {
		e, ok := d.due.Pop(nil)
		if !ok {
			return
		}
		d.tokens--
		e.queued, e.last = false, now
		d.line(e)
		e.times = 0
	}
}

func (d *denials) line(e *told) {
	message, fields := "denied", []zap.Field{zap.String("profile", e.profile), zap.String("operation", e.operation), zap.String("name", e.name)}
	if e.profile == "" {
		message, fields = "denied in many other ways", nil
	}
	if e.why != "" {
		fields = append(fields, zap.String("why", e.why))
	}
	if e.times > 1 || e.profile == "" {
		fields = append(fields, zap.Int("times", e.times))
	}
	if e.identity != "" {
		fields = part.From(e.identity, fields...)
	}
	d.log.With(zap.Stringer("err_code", profiles.SecurityPolicy)).Warn(message, fields...)
}

// schedule calls tend again while there are entries.
func (d *denials) schedule() {
	if d.timer != nil || len(d.known) == 0 || d.ended {
		return
	}
	d.timer = time.AfterFunc(time.Second/denialRate, d.tend)
}

// tend writes what has become due, and forgets denials that were not repeated.
func (d *denials) tend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return
	}
	now := time.Now()
	d.timer = nil
	for key, e := range d.known {
		switch {
		case e.queued || now.Sub(e.last) < repeatEvery:
		case e.times > 0:
			d.enqueue(e)
		default:
			delete(d.known, key)
			d.count(key.identity, -1)
		}
	}
	d.write(now)
	d.schedule()
}

// close writes what is due or was repeated, once without a rate: a stop hides no denial.
func (d *denials) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	d.ended = true
	for _, e := range d.known {
		if e.times > 0 && !e.queued {
			d.enqueue(e)
		}
	}
	d.write(time.Now())
}
