package served

import (
	"go.uber.org/zap"

	"github.com/slimwire/swp/profiles/a2a"
)

// hiring are the Workers of profile 2 that end and begin with a reload. Sections put
// theirs in first, so that a name may move from one section to another.
type hiring struct{ gone, come []a2a.Registration }

// Replace has the next Hire end some Workers and begin others.
func (p *Profiles) Replace(gone, come []a2a.Registration) {
	h := &p.hiring
	h.gone, h.come = append(h.gone, gone...), append(h.come, come...)
}

// Hire has the Workers carry out tasks that sections have put in, and no others.
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
