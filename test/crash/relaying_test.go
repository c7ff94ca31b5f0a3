package crash

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/slimwire/swp/daemon/devpki"
)

// relaying has publishers and consumers as the processes of the test of the relay,
// but in this one, where nobody kills them.
type relaying struct {
	*faults
	r       *rig
	journal string // directory
	lanes   int

	figures figures
}

// newRelaying relays through the swpd of a rig, which has relayConfig, on so many
// connections of publishers.
func newRelaying(t *testing.T, f *faults, r *rig, lanes int) *relaying {
	return &relaying{faults: f, r: r, journal: keptDir(t, "relaying"), lanes: lanes}
}

func (w *relaying) String() string { return "relay: " + w.figures.String() }

func (w *relaying) run(ctx, _ context.Context, dial dialer) {
	p, err := newPublisher(w.journal, rolePublisher)
	if err != nil {
		w.add("relay: %v", err)
		return
	}
	var all sync.WaitGroup
	for n := range consumers {
		all.Go(func() { w.consume(ctx, fmt.Sprintf("%s-%d", roleConsumer, n)) })
	}
	all.Go(func() {
		if err := p.run(ctx, dial, w.lanes); err != nil {
			w.add("relay: %v", err)
		}
	})
	all.Wait()
}

func (w *relaying) consume(ctx context.Context, name string) {
	c, err := newConsumer(w.journal, name)
	if err != nil {
		w.add("relay: %v", err)
		return
	}
	c.run(ctx, w.r.as(devpki.Server, ""))
}

// check has what is left consumed, and judges all that happened.
func (w *relaying) check(ctx context.Context, dial dialer) {
	bounded, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { w.consume(bounded, roleConsumer+"-late") })
	dead, err := drain(ctx, w.journal, dial, hop{})
	cancel()
	all.Wait()
	if err != nil {
		w.add("relay: %v", err)
	}
	if w.figures, err = verdict(w.journal, history{relays: w.r.past(), dead: dead}, w.add); err != nil {
		w.add("relay: %v", err)
	}
}
