package crash

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles/state"
)

// killsVariable says how often TestFailover kills and drains; `make failover KILLS=` sets it.
const killsVariable = "SWP_CRASH_KILLS"

// pulse is a client that writes a state again and again.
type pulse struct {
	mu      sync.Mutex
	news    *sync.Cond
	last    time.Time     // the last acknowledgement
	longest time.Duration // between two acknowledgements since the last call of pause
}

// pulsePace is the pause between two writes.
const pulsePace = 5 * time.Millisecond

func (p *pulse) run(ctx context.Context, dial dialer) {
	n := 0
	_ = connected(ctx, dial, func(ctx context.Context, c *client.Client) error {
		for ; ; n++ {
			if _, err := c.PutStates(ctx, state.State{Blob: fmt.Append(nil, n)}); err != nil {
				return err
			}
			p.beat()
			wait(ctx, pulsePace)
		}
	})
}

func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.last.IsZero() {
		p.longest = max(p.longest, now.Sub(p.last))
	}
	p.last = now
	p.news.Broadcast()
}

// pause waits for the next acknowledgement, and returns the longest time without one since the last call.
func (p *pulse) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	for before := p.last; p.last.Equal(before); {
		p.news.Wait()
	}
	defer func() { p.longest = 0 }()
	return p.longest
}

// TestFailover measures the time without an acknowledged write at a client, while the active one of
// several nodes is killed, and while it is drained.
func TestFailover(t *testing.T) {
	times, err := strconv.Atoi(os.Getenv(killsVariable))
	if err != nil || times < 1 {
		t.Skipf("%s=%q is no number of kills", killsVariable, os.Getenv(killsVariable))
	}
	n := newNodes(t, "")
	n.begin()
	ctx, cancel := context.WithCancel(t.Context())
	p := new(pulse)
	p.news = sync.NewCond(&p.mu)
	var all sync.WaitGroup
	all.Go(func() { p.run(ctx, n.dial) })
	defer all.Wait()
	defer cancel()
	for _, fault := range []struct {
		name string
		do   func() time.Duration
	}{{"killed", n.killed}, {"drained", n.drained}} {
		var pauses []time.Duration
		for range times {
			time.Sleep(500 * time.Millisecond) // of writes
			p.pause()
			fault.do()
			pauses = append(pauses, p.pause())
		}
		slices.Sort(pauses)
		t.Logf("%s %d times: without an acknowledged write for %v (p50), %v (p99), %v at most",
			fault.name, times, pauses[len(pauses)/2], pauses[len(pauses)*99/100], pauses[len(pauses)-1])
	}
}
