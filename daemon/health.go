package daemon

import (
	"sync/atomic"

	"github.com/slimwire/swp/daemon/internal/part"
)

// phase is where a daemon is in its life.
type phase int32

const (
	starting phase = iota
	serving
	draining
)

// health says whether this endpoint should be sent work. Each part is asked
// when somebody wants to know, so the answer is never older than the question.
type health struct {
	phase atomic.Int32
	parts part.List
}

// Health is what /readyz and /status say.
type Health = part.Health

func (h *health) look() Health {
	v := Health{Reasons: []string{}, Warnings: []string{}}
	switch phase(h.phase.Load()) {
	case starting:
		v.Reasons = append(v.Reasons, "starting")
	case draining:
		v.Reasons = append(v.Reasons, "stopping")
	case serving:
	}
	for _, one := range h.parts {
		one.Look(&v)
	}
	v.Ready = len(v.Reasons) == 0
	return v
}
