package daemon

import (
	"sync/atomic"

	"github.com/slimwire/swp/daemon/internal/part"
)

// phase is the phase of a daemon's life.
type phase int32

const (
	starting phase = iota
	serving
	draining
)

// health says whether this endpoint is ready for work. It asks the parts for each request,
// so that the answer is current.
type health struct {
	phase atomic.Int32
	parts part.List
}

// Health is the answer of /readyz and /status.
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
