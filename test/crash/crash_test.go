package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

// readyTime is how soon swpd has to be ready.
const readyTime = 5 * time.Second

// howLong is how long the load lasts, unless SWP_CRASH says otherwise.
func howLong(t *testing.T) time.Duration {
	t.Helper()
	s := os.Getenv("SWP_CRASH")
	switch {
	case s == "" && effort.Long():
		return time.Minute
	case s == "":
		return 5 * time.Second
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatalf("SWP_CRASH: %v", err)
	}
	return d
}

// TestST01KilledUnderLoadNothingAcknowledgedIsLostOrDoneTwice kills swpd at
// random moments under mixed durable load.
func TestST01KilledUnderLoadNothingAcknowledgedIsLostOrDoneTwice(t *testing.T) {
	beside(t)
	sown(t)
	d := howLong(t)
	data := filepath.Join(t.TempDir(), "data")
	fill(t, filepath.Join(data, "store"))
	f := new(faults)
	journals := keptDir(t, "journals")
	r := newRig(t, data, workConfig(t, journals)+relayConfig())
	work := []workload{newWorking(t, f, r, journals, 4), newChanging(f, 4), newRelaying(t, f, r, 4)}

	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	life, stop := context.WithTimeout(t.Context(), d+afterLoad)
	defer stop()
	var all sync.WaitGroup
	for _, w := range work {
		all.Go(func() { w.run(ctx, life, r.dial) })
	}
	luck, kills, times := chances(t.Name()), 0, []time.Duration{}
	for ctx.Err() == nil {
		took, err := r.start()
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, took)
		wait(ctx, 200*time.Millisecond+upTo(luck, 1500*time.Millisecond))
		r.kill()
		kills++
		if luck.IntN(4) == 0 {
			kills += r.killWhileStarting(1+luck.IntN(3), luck)
		}
	}
	took, err := r.start()
	if err != nil {
		t.Fatal(err)
	}
	times = append(times, took)
	all.Wait()
	for _, w := range work {
		w.check(life, r.dial)
		t.Logf("%s", w)
	}
	t.Logf("%d kills, ready after %v the first time, %v at most, %v in the middle", kills, times[0], slices.Max(times), median(times))
	if slow := slices.Max(times); slow > readyTime && os.Getenv("SWP_CRASH") != "" {
		// Beside other tests a start says more about those.
		t.Errorf("ready after %v, want %v at most", slow, readyTime)
	}
	f.report(t)
}

// TestST09KilledDuringRecoveryItConverges kills swpd twenty times in a row while
// it starts.
func TestST09KilledDuringRecoveryItConverges(t *testing.T) {
	beside(t)
	sown(t)
	data := filepath.Join(t.TempDir(), "data")
	f := new(faults)
	journals := keptDir(t, "journals")
	r := newRig(t, data, workConfig(t, journals)+relayConfig())
	work := []workload{newWorking(t, f, r, journals, 2), newChanging(f, 4), newRelaying(t, f, r, 2)}
	if _, err := r.start(); err != nil {
		t.Fatal(err)
	}
	life, stop := context.WithTimeout(t.Context(), afterLoad)
	defer stop()
	ctx, cancel := context.WithTimeout(life, time.Second)
	defer cancel()
	var all sync.WaitGroup
	for _, w := range work {
		all.Go(func() { w.run(ctx, life, r.dial) })
	}
	wait(ctx, time.Second)
	r.kill()
	r.killWhileStarting(20, chances(t.Name()))
	if _, err := r.start(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	for _, w := range work {
		w.check(life, r.dial)
		t.Logf("%s", w)
	}
	f.report(t)
}

// killWhileStarting starts swpd n times and kills it before it can be ready.
func (r *rig) killWhileStarting(n int, luck *rand.Rand) int {
	for range n {
		if err := r.launch(); err != nil {
			r.t.Fatal(err)
		}
		time.Sleep(upTo(luck, 150*time.Millisecond)) // that it is in the middle of something is the point
		r.kill()
	}
	return n
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

// fill makes a store that swpd has to open each time: of more than 400 MiB where tests are
// long, and of a tenth of it otherwise.
func fill(t *testing.T, data string) {
	t.Helper()
	const size = 4 << 10
	entries := 10_000
	if effort.Long() || os.Getenv("SWP_CRASH") != "" {
		entries = 100_000
	}
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{Dir: data, Durability: store.Process})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	room := make(chan struct{}, 4096)
	octets := make([]byte, size)
	for i := range octets {
		octets[i] = byte(rand.N(256))
	}
	for i := range entries {
		room <- struct{}{}
		all.Add(1)
		s.Append("crash", "ballast", fmt.Sprint(i), "nobody", octets, time.Time{}, func(r store.AppendResult) {
			if r.Err != nil {
				t.Errorf("ballast: %v", r.Err)
			}
			<-room
			all.Done()
		})
	}
	all.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	syscall.Sync() // what the kernel has yet to write would be written by the first start
	total := int64(0)
	files, err := filepath.Glob(filepath.Join(data, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			total += info.Size()
		}
	}
	if least := int64(entries) * size; total < least {
		t.Fatalf("the store has %d octets, want %d at least", total, least)
	}
}
