package entrances

import (
	"runtime"
	"runtime/debug"
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
	since             uint64 // octets allocated since the last collection
	looks, collection int
}

func (h *heap) allocate(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live += uint64(n)
	h.since += uint64(n)
	h.peak = max(h.peak, h.live+h.dead)
}

func (h *heap) giveUp(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live -= uint64(n)
	h.dead += uint64(n)
}

func (h *heap) garbage(budget uint64) *garbage {
	return &garbage{
		budget: budget,
		heap: func() (live, allocated uint64) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.looks++
			return h.live, h.since
		},
		collect: func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.dead, h.since = 0, 0
			h.collection++
		},
	}
}

func TestRS19GarbageOfLargeMessagesIsBounded(t *testing.T) {
	const takers, size, most = 8, 1 << 20, 4 << 20
	h := new(heap)
	b := memory.New(16 * takers * size)
	b.OnLarge(h.garbage(16 * most).collectFor)
	var g sync.WaitGroup
	for i := range takers {
		g.Go(func() {
			share := b.Share(strconv.Itoa(i))
			defer share.Close()
			for range 100 {
				if !share.Try(size, memory.Large) {
					t.Error("no room")
				}
				h.allocate(size)
				h.giveUp(size)
				share.Give(size, memory.Large)
			}
		})
	}
	g.Wait()
	// One that has taken octets and not yet allocated them is seen by no look.
	if bound := uint64(most + takers*size); h.peak > bound {
		t.Errorf("%d octets at the peak, want %d at most", h.peak, bound)
	}
}

func TestRS19ACollectionIsDueWhenEnoughWasAllocated(t *testing.T) {
	h := new(heap)
	g := h.garbage(1600)
	for _, row := range []struct {
		live, allocated   uint64 // at the last collection and since, when a look is made
		take, looks, runs int
	}{
		{take: 100},                                      // what was taken is not enough
		{allocated: 99, take: 1, looks: 1},               // at the limit
		{allocated: 100, take: 1, looks: 1, runs: 1},     // above it
		{allocated: 500, take: 99},                       // nobody looks before as much was taken again
		{allocated: 500, take: 1, looks: 1, runs: 1},     // others have allocated, too
		{allocated: 0, take: 100, looks: 1},              // the runtime has collected
		{allocated: 0, take: 101, looks: 1, runs: 1},     // alone above it
		{live: 3200, allocated: 99, take: 101, looks: 1}, // at the limit of a large heap
		{live: 3200, allocated: 200, take: 1, looks: 1, runs: 1},
	} {
		h.live, h.since, h.looks, h.collection = row.live, row.allocated, 0, 0
		if g.collectFor(row.take); h.looks != row.looks || h.collection != row.runs {
			t.Errorf("%+v: %d looks and %d collections, want %d and %d", row, h.looks, h.collection, row.looks, row.runs)
		}
	}
}

func TestRS19GarbageIsCollectedFirstOnlyWhereThatIsWanted(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // no collection but forced ones
	forced := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/cycles/forced:gc-cycles"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	for _, want := range []bool{false, true} {
		g := NewMemory(16 << 20)
		if want {
			g.CollectFirst()
		}
		before := forced()
		if !g.Budget.Share("a").Try(4<<20, memory.Large) { // more than a sixteenth at once
			t.Fatal("no room")
		}
		if got := forced() > before; got != want {
			t.Errorf("wanted %v: collected %v", want, got)
		}
	}
}

func TestAllocatedOctetsAreThoseSinceTheLastCollection(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // no collection but those of the test
	runtime.GC()
	_, before := inHeap()
	const size = 64 << 20
	kept := make([]byte, size)
	if _, now := inHeap(); now-before < size/2 {
		t.Errorf("%d octets after %d were allocated", now-before, size)
	}
	runtime.GC()
	if live, now := inHeap(); now >= size/2 || live < size {
		t.Errorf("%d octets in use and %d more right after a collection", live, now)
	}
	runtime.KeepAlive(kept)
}
