package served

import (
	"go.uber.org/zap"

	"github.com/slimwire/swp/profiles/a2a"
)

// hiring collects the Workers of profile 2 that a reload removes and adds. All sections add
// theirs before the change takes effect, so that a name may move from one section to
// another.
type hiring struct{ gone, come []a2a.Registration }

// Replace schedules the removal of gone and the addition of come for the next Hire.
func (p *Profiles) Replace(gone, come []a2a.Registration) {
	h := &p.hiring
	h.gone, h.come = append(h.gone, gone...), append(h.come, come...)
}

// Hire applies the scheduled changes.
func (p *Profiles) Hire() {
	h := p.hiring
	p.hiring = hiring{}
	if len(h.gone)+len(h.come) == 0 {
		return
	}
	if err := p.set.A2A.ReplaceWorkers(h.gone, h.come); err != nil {
		p.log.Error("tasks go where they went before", zap.Error(err))
	}
}
