package daemon

import (
	"cmp"
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
	phase  atomic.Int32
	waits  part.Fault               // the reason for a long start
	stands atomic.Pointer[standing] // nil: no other node is active
	parts  part.List                // not used while the daemon starts
}

// Health is the answer of /readyz and /status.
type Health = part.Health

func (h *health) look() Health {
	v := Health{Reasons: []string{}, Warnings: []string{}}
	switch phase(h.phase.Load()) {
	case starting:
		if s := h.stands.Load(); s != nil {
			return s.look()
		}
		why, _ := h.waits.Text()
		v.Reasons = append(v.Reasons, cmp.Or(why, "starting"))
		return v
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
