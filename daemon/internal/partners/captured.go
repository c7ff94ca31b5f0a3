package partners

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/part"
)

// captureTime bounds the search for the names that one partner captures.
const captureTime = 5 * time.Second

// capture warns of local names that begin with the name of a partner that is new: messages
// about them go to the partner from now on. The warnings stay until the partner is removed
// or the process ends.
func (p *Partners) capture(c *config.Config) {
	p.mu.Lock()
	known := p.captured
	p.mu.Unlock()
	now := make(map[string][]config.Captured, len(c.Partners))
	for name := range c.Partners {
		warnings, ok := known[name]
		if !ok {
			warnings = config.CapturedBy(name, p.named(c, name))
			for _, one := range warnings {
				p.log.Warn(one.String())
			}
		}
		now[name] = warnings
	}
	p.mu.Lock()
	p.captured = now
	p.mu.Unlock()
}

// named returns the local names that begin with the name of a partner.
func (p *Partners) named(c *config.Config, partner string) map[string][]string {
	ctx, cancel := context.WithTimeout(context.Background(), captureTime)
	defer cancel()
	found := c.Named(partner + "/")
	stored, err := p.o.Stored(ctx, partner+"/")
	if err != nil {
		p.log.Warn("stored names were not compared with a new partner", zap.String("partner", partner), zap.Error(err))
		return found
	}
	maps.Copy(found, stored)
	return found
}

// captures warns of captured names.
func (p *Partners) captures(h *part.Health) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(p.captured)) {
		for _, c := range p.captured[name] {
			h.WarnWith(c.Text(), c.Names())
		}
	}
}
