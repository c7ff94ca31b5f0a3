package daemon

import (
	"strings"
	"sync/atomic"
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
	phase       atomic.Int32
	credentials *credentials
	reloader    *reloader
	state       *state
	memory      *memoryGuard
	servers     *servers
	agents      *agents
	backends    *backends
	partners    *partners
}

// Health is what /readyz and /status say.
type Health struct {
	Ready    bool     `json:"ready"`
	Reasons  []string `json:"reasons"`  // why not
	Warnings []string `json:"warnings"` // what somebody should look at
}

func (h *health) look() Health {
	v := Health{Reasons: []string{}, Warnings: []string{}}
	switch phase(h.phase.Load()) {
	case starting:
		v.Reasons = append(v.Reasons, "starting")
	case draining:
		v.Reasons = append(v.Reasons, "stopping")
	case serving:
	}
	if h.memory.admit() != nil {
		v.Reasons = append(v.Reasons, "memory: more than 90 % of the limit is in use; no new connections are accepted")
	}
	if failure := h.state.failure.Load(); failure != nil {
		v.Reasons = append(v.Reasons, "store: "+strings.TrimPrefix(*failure, "store: "))
	}
	if reason, urgent := h.credentials.expiry(); urgent {
		v.Reasons = append(v.Reasons, reason)
	} else if reason != "" {
		v.Warnings = append(v.Warnings, reason)
	}
	v.Warnings = append(v.Warnings, h.credentials.anchorWarnings()...)
	v.Warnings = append(v.Warnings, h.reloader.warnings()...)
	v.Warnings = append(v.Warnings, h.servers.troubles.warnings("mcp server")...)
	v.Warnings = append(v.Warnings, h.agents.troubles.warnings("a2a agent")...)
	v.Warnings = append(v.Warnings, h.backends.troubles.warnings("rpc backend")...)
	v.Warnings = append(v.Warnings, h.partners.warnings()...)
	v.Warnings = append(v.Warnings, h.partners.expiries()...)
	v.Ready = len(v.Reasons) == 0
	return v
}
