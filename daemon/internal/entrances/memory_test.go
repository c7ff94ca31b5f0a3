package entrances

import (
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/internal/memory"
)

func TestMemoryGuardRefusesWhileMemoryIsShort(t *testing.T) {
	used := uint64(0)
	g := &Memory{limit: 100, used: func() uint64 { return used }, collect: func() {}}
	for _, step := range []struct {
		used  uint64
		short bool
	}{{0, false}, {89, false}, {90, true}, {100, true}, {89, false}} {
		used = step.used
		g.measure()
		if got := g.Admit() != nil; got != step.short {
			t.Errorf("%d of 100 in use: refused %v, want %v", used, got, step.short)
		}
	}
}

func TestRS03ShortMemoryIsNotReadyAndRecovers(t *testing.T) {
	guard := &Memory{}
	guard.short.Store(true)
	look := func() (h part.Health) {
		guard.Look(&h)
		return h
	}
	if v := look(); len(v.Reasons) != 1 || !strings.HasPrefix(v.Reasons[0], "memory: ") {
		t.Errorf("health %+v", v)
	}
	guard.short.Store(false)
	if v := look(); len(v.Reasons) > 0 {
		t.Errorf("health %+v", v)
	}
}

// Large buffers return to their pool, and nothing else happens in the process.
func TestRS13MemoryGoesBackAfterAPeak(t *testing.T) {
	effort.Unwatched(t)
	const size, n = 8 << 20, 24
	g := NewMemory(256 << 20)
	resident := func() uint64 {
		s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64() - s[1].Value.Uint64()
	}
	before := resident()
	share := g.Budget.Share("a")
	var pool frame.Pool
	var list [][]byte
	for range n {
		share.Try(size, memory.Large)
		b := pool.Get(size)
		clear(b[:cap(b)])
		list = append(list, b)
	}
	g.giveBack() // Serve calls it twice a second
	for _, b := range list {
		pool.Put(b)
		share.Give(size, memory.Large)
	}
	list = nil
	for range patience + collections {
		g.giveBack()
	}
	for end := time.Now().Add(time.Minute); resident() > before+n*size/4; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d MiB are held a minute later, %d MiB before", resident()>>20, before>>20)
		}
	}
	runtime.KeepAlive(&pool)
}

func TestBuffersOfTrafficThatComesAndGoesAreKept(t *testing.T) {
	runs := 0
	g := NewMemory(256 << 20)
	g.collect = func() { runs++ }
	share := g.Budget.Share("a")
	look := func(n int) {
		for range n {
			g.giveBack()
		}
	}
	for range 20 {
		share.Try(2*muchMemory, memory.Large)
		look(1)
		share.Give(2*muchMemory, memory.Large)
		look(patience - 1)
	}
	if runs > 0 {
		t.Errorf("the garbage collector ran %d times while there was traffic, want 0", runs)
	}
	look(1 + 2*collections)
	if runs != collections {
		t.Errorf("the garbage collector ran %d times after the traffic, want %d", runs, collections)
	}
	look(2 * patience)
	if runs != collections {
		t.Errorf("the garbage collector ran %d times while nothing happened, want none", runs-collections)
	}
}

// heap is memory in which octets that were given back remain until a collection.
type heap struct {
	mu                sync.Mutex
	live, dead, peak  uint64
	limit             uint64
	looks, collection int
}

func (h *heap) add(live, dead int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live += uint64(live)
	h.dead += uint64(dead)
	h.peak = max(h.peak, h.live+h.dead)
}

func (h *heap) garbage() *garbage {
	return &garbage{
		limit: func() uint64 { return h.limit },
		used: func() uint64 {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.looks++
			return h.live + h.dead
		},
		collect: func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.dead = 0
			h.collection++
		},
	}
}

func TestRS19GarbageOfLargeMessagesIsCollectedInTime(t *testing.T) {
	const takers, size, others = 8, 1 << 20, 2 << 20
	h := &heap{live: others, limit: others + takers*size*3/2}
	b := memory.New(16 * takers * size)
	b.OnLarge(h.garbage().collectFor)
	var g sync.WaitGroup
	for i := range takers {
		g.Go(func() {
			share := b.Share(strconv.Itoa(i))
			defer share.Close()
			for range 100 {
				if !share.Try(size, memory.Large) {
					t.Error("no room")
				}
				h.add(size, 0)
				h.add(-size, size)
				share.Give(size, memory.Large)
			}
		})
	}
	g.Wait()
	// One that has taken octets and not yet allocated them is seen by no look.
	if most := h.limit + takers*size; h.peak > most {
		t.Errorf("%d octets at the peak, want %d at most", h.peak, most)
	}
}

func TestRS19MemoryUpToItsLimitIsCollectedWhenASixteenthWasTaken(t *testing.T) {
	h := &heap{limit: 1600}
	g := h.garbage()
	for _, row := range []struct {
		live, dead        uint64
		take, looks, runs int
	}{
		{live: 0, take: 1600}, // at the limit
		{live: 0, take: 1, looks: 1},
		{live: 1000, take: 1600, looks: 2, runs: 1}, // nothing to collect: 100 might have been taken
		{live: 1000, dead: 599, take: 1, looks: 1},  // at the limit
		{live: 1000, dead: 599, take: 2, looks: 2, runs: 1},
		{live: 1000, take: 598},
		{live: 1700, take: 1, looks: 2, runs: 1}, // too much is in use
		{live: 1700, take: 99},
		{live: 1700, take: 1, looks: 2, runs: 1},
	} {
		h.live, h.dead, h.looks, h.collection = row.live, row.dead, 0, 0
		if g.collectFor(row.take); h.looks != row.looks || h.collection != row.runs {
			t.Errorf("%+v: %d looks and %d collections, want %d and %d", row, h.looks, h.collection, row.looks, row.runs)
		}
	}
}
