package crash

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// relayConfig has the relay give up soon what nobody answers, and not give up
// what is only killed again and again.
func relayConfig() string {
	return fmt.Sprintf("relay: {ack_timeout: %v, max_attempts: %d, backoff: 50ms, max_backoff: 500ms}\n", ackTimeout, maxAttempts)
}

// How many processes there are of each kind.
const (
	publishers = 2
	consumers  = 3
)

// TestST01RelayWithPublisherConsumerAndSwpdKilledNothingAcknowledgedIsLost kills
// publishers, consumers and swpd at random moments under load. What each of them
// did is in journals of their own, which are held against the contract of the
// relay: see history.judge.
func TestST01RelayWithPublisherConsumerAndSwpdKilledNothingAcknowledgedIsLost(t *testing.T) {
	beside(t)
	sown(t)
	d := 5 * time.Second
	long := os.Getenv("SWP_CRASH") != ""
	if long {
		d = howLong(t)
	}
	dir := keptDir(t, "relay")
	data, dir := filepath.Join(dir, "data"), filepath.Join(dir, "journals")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if long {
		fill(t, filepath.Join(data, "store"))
	}
	r := newRig(t, data, relayConfig())
	if _, err := r.start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	f, kills := new(faults), make(map[string]span)
	var all sync.WaitGroup
	var some []*series
	run := func(role string, number int) {
		s := newSeries(post{Role: role, Number: number, Rig: r.dir, Journals: dir})
		some = append(some, s)
		if err := s.start(); err != nil {
			t.Fatal(err)
		}
		all.Go(func() { s.suffer(ctx, f) })
	}
	for n := range publishers {
		run(rolePublisher, n)
	}
	for n := range consumers {
		run(roleConsumer, n)
	}
	var times []time.Duration
	all.Go(func() { times = r.suffer(ctx, f) })
	all.Wait()

	count := make(map[string]int)
	finish := func(role string) {
		for _, s := range some {
			if s.Role != role {
				continue
			}
			count[role] += len(s.kills)
			if err := s.kill(); err != nil {
				f.add("%v", err)
			}
			maps.Copy(kills, s.kills)
		}
	}
	finish(rolePublisher)
	began := time.Now()
	dead, err := drain(t.Context(), dir, r.dial, hop{})
	drained := time.Since(began)
	finish(roleConsumer)
	if err != nil {
		f.add("%v", err)
	}
	figures, err := verdict(dir, history{relays: r.past(), kills: kills, dead: dead}, f.add)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v", figures)
	t.Logf("%.0f messages a second, drained after %v", float64(figures.acknowledged)/d.Seconds(), drained)
	t.Logf("killed: publishers %d times, consumers %d times, swpd %d times; ready after %v at most, %v in the middle",
		count[rolePublisher], count[roleConsumer], len(times), slices.Max(times), median(times))
	if slow := slices.Max(times); slow > readyTime && long {
		t.Errorf("ready after %v, want %v at most", slow, readyTime)
	}
	f.report(t)
}

// suffer kills a process at random moments until ctx ends. Then it runs.
func (s *series) suffer(ctx context.Context, f *faults) {
	for luck := chances(s.seriesName()); ; {
		wait(ctx, 300*time.Millisecond+upTo(luck, 3*time.Second))
		if ctx.Err() != nil {
			return
		}
		if err := s.again(); err != nil {
			f.add("%v", err)
			return
		}
	}
}

// suffer kills swpd at random moments until ctx ends, and returns how long it
// took each time until it was ready. Then it runs.
func (r *rig) suffer(ctx context.Context, f *faults) (times []time.Duration) {
	for luck := chances("swpd"); ; {
		wait(ctx, 300*time.Millisecond+upTo(luck, 3*time.Second))
		if ctx.Err() != nil {
			return times
		}
		r.kill()
		took, err := r.start()
		if err != nil {
			f.add("%v", err)
			return times
		}
		times = append(times, took)
	}
}
