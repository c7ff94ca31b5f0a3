package partners

import (
	"strings"

	"github.com/slimwire/swp/daemon/internal/health"
	"github.com/slimwire/swp/internal/causes"
)

// Health returns the states of the links.
func (p *Partners) Health() (list []health.Seen) {
	for _, s := range p.Status() {
		one := health.Seen{Name: s.Name, State: health.Away, Since: s.Since, Fault: health.PartnerAway, Why: s.Failure}
		cause := causes.Named(s.Cause)
		switch {
		case s.Barred != "":
			one.State, one.Fault, one.Why = health.Suspended, health.PartnerBarred, strings.TrimPrefix(s.Barred, "partner "+s.Name+" ")
		case s.Up:
			one.State = health.OK
		case s.Failure == "" && s.Connects == 0:
			one.State = health.Starting
		case cause != causes.None:
			one.Fault, one.Remedy = health.PartnerRefuses, cause.Remedy()
		}
		list = append(list, one)
	}
	return list
}
