package endpoint

import (
	"sync"
	"time"
)

// limiter has the limits of one connection over time: the token bucket, the fixed window
// and the error budgets. The streams of the connection share it.
type limiter struct {
	mu sync.Mutex

	tokens float64
	filled time.Time // when tokens was last updated

	window time.Time // when the fixed window began
	inside int       // frames accepted in it

	minute   time.Time // when the minute of the error budgets began
	refusals refusals  // in it

	late int // octets of late answers that are not charged
}

// lateOctets is how much the peer may have sent before it learns that a call was closed:
// what fits into its output queue and into the buffers of both systems. The late answers of
// all calls of a session share maxLateOctets.
const (
	lateOctets    = 16 << 20
	maxLateOctets = 64 << 20
)

// expectLate allows late answers to a call that was closed before its end.
func (p *limiter) expectLate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = min(p.late+lateOctets, maxLateOctets)
}

// allowLate subtracts a late answer of size octets from the allowance, if it suffices.
func (p *limiter) allowLate(size int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if size > p.late {
		return false
	}
	p.late -= size
	return true
}

// wait takes one token and returns how long the reader has to pause for it.
func (p *limiter) wait(r Rate, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.filled.IsZero() {
		p.tokens, p.filled = float64(r.Burst), now
	}
	if d := now.Sub(p.filled); d > 0 {
		p.tokens = min(float64(r.Burst), p.tokens+d.Seconds()*float64(r.Frames))
		p.filled = now
	}
	p.tokens--
	if p.tokens >= 0 {
		return 0
	}
	return time.Duration(-p.tokens / float64(r.Frames) * float64(time.Second))
}

// allow counts one frame against the fixed window (SWP Core §8). A window begins with the
// first frame after the end of the previous one.
func (p *limiter) allow(w Window, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.window.IsZero() || now.Sub(p.window) >= w.Period {
		p.window, p.inside = now, 0
	}
	if p.inside >= w.Frames {
		return false
	}
	p.inside++
	return true
}

// charge counts a refusal and reports whether the budget for its kind is spent.
func (p *limiter) charge(b *Bounds, forPace bool) (spent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.minute.IsZero() || now.Sub(p.minute) >= time.Minute {
		p.minute, p.refusals = now, refusals{}
	}
	p.refusals.count(forPace)
	return p.refusals.errors > b.ErrorBudget || p.refusals.paced > b.PaceBudget
}

// refusals counts the refusals of a minute.
type refusals struct {
	errors int
	paced  int // for pace, or by the access rules
}

func (r *refusals) count(forPace bool) {
	if forPace {
		r.paced++
	} else {
		r.errors++
	}
}
