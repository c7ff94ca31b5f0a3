package entrances

import (
	"runtime"
	"runtime/metrics"
	"strings"
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
