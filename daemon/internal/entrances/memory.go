package entrances

import (
	"context"
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/memory"
)

// errMemory refuses connections while memory is short (ABUSE RS-03).
var errMemory = errors.New("memory is short")

// Memory has the budget for octets in flight. It refuses new connections while more than nine
// tenths of the soft memory limit (GOMEMLIMIT), if there is one, are in use.
type Memory struct {
	part.Passive
	Budget *memory.Budget // of limits.in_flight_bytes

	peak  int // of its use since memory was last given back
	quiet int // measurements in a row that found less than half of it in use
	due   int // runs of the garbage collector to give it back

	limit   uint64
	used    func() uint64
	collect func() // runs the garbage collector
	short   atomic.Bool
}

// NewMemory returns the Memory of a process with a budget of so many octets. It uses the soft
// limit of this process.
func NewMemory(budget int) *Memory {
	g := &Memory{Budget: memory.New(budget), used: memoryInUse, collect: runtime.GC}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		g.limit = uint64(limit)
	}
	return g
}

// CollectFirst has garbage collected before octets of large messages are taken. It is called before the
// Budget is used.
func (g *Memory) CollectFirst() {
	before := garbage{budget: uint64(g.Budget.Limit()), heap: inHeap, collect: debug.FreeOSMemory}
	g.Budget.OnLarge(before.collectFor)
}

// garbage is collected before octets of large messages are taken, when more than a sixteenth of the
// budget, or of the heap if that is larger, was allocated since the last collection. The runtime alone
// collects when as much was allocated as is in use: octets that were given back to the budget then
// fill as much memory as those in flight. And it keeps what it has freed, for a time.
type garbage struct {
	budget  uint64
	heap    func() (live, allocated uint64) // octets at the last collection, also of the runtime, and since
	collect func()                          // returns when all garbage is free, and its memory returned to the system

	mu    sync.Mutex
	known uint64 // octets allocated at the last look, with what was taken since
}

// collectFor collects before n octets are allocated, if that is due.
func (g *garbage) collectFor(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known += uint64(n); g.known <= g.budget/16 {
		return
	}
	live, allocated := g.heap()
	if g.known = allocated + uint64(n); g.known > max(g.budget, live)/16 {
		g.collect()
		g.known = uint64(n)
	}
}

// Limit is the soft memory limit in octets, or 0.
func (g *Memory) Limit() uint64 { return g.limit }

// MemoryUse is the use of the budget.
type MemoryUse struct {
	Used  int          `json:"used"`
	Limit int          `json:"limit"`
	Most  []memory.Use `json:"most"` // the identities that hold most
}

// Use returns the present use of the budget, and the five identities that hold most.
func (g *Memory) Use() MemoryUse {
	return MemoryUse{Used: g.Budget.Used(), Limit: g.Budget.Limit(), Most: g.Budget.Top(5)}
}

// Collectors implements part.Part. No metric has an identity as its label.
func (g *Memory) Collectors() []prometheus.Collector {
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	return []prometheus.Collector{
		gauge("swpd_in_flight_bytes", "Octets of large frames, HTTP bodies, waiting requests and answers.", g.Budget.Used),
		gauge("swpd_in_flight_bytes_of_one_identity", "The part of the identity that holds most of them.", func() int {
			for _, most := range g.Budget.Top(1) {
				return most.Octets
			}
			return 0
		}),
	}
}

// Admit implements endpoint.Options.Admit.
func (g *Memory) Admit() error {
	if g.short.Load() {
		return errMemory
	}
	return nil
}

// Look implements part.Part.
func (g *Memory) Look(h *part.Health) {
	if g.Admit() != nil {
		h.Reasons = append(h.Reasons, "memory: more than 90 % of the limit is in use; no new connections are accepted")
	}
}

// Serve implements part.Part: it measures the memory periodically.
func (g *Memory) Serve(ctx context.Context) {
	part.Every(ctx, 500*time.Millisecond, func() {
		g.giveBack()
		if g.limit > 0 {
			g.measure()
		}
	})
}

const (
	// muchMemory is the peak of the budget's use from which on its memory is given back.
	muchMemory = 16 << 20

	// patience is how many measurements in a row must find little in use. Traffic that comes
	// and goes keeps its buffers.
	patience = 10

	// collections is how many runs of the garbage collector give memory back. The first makes
	// the pools of buffers forget what they have not lent, the second frees it, and after the
	// third the runtime knows that the heap is small, and returns the rest to the system.
	collections = 3
)

// giveBack runs the garbage collector when less than half of the last peak of the budget has
// been in use for some time. An idle process would run it every two minutes only.
func (g *Memory) giveBack() {
	switch used := g.Budget.Used(); {
	case used > g.peak:
		g.peak, g.quiet = used, 0
	case used >= g.peak/2:
		g.quiet = 0
	default:
		g.quiet++
		if g.peak >= muchMemory && g.quiet >= patience {
			g.peak, g.quiet, g.due = used, 0, collections
		}
	}
	if g.due > 0 {
		g.Budget.Forget()
		g.due--
		g.collect()
	}
}

// measure runs the garbage collector before it decides that memory is short, because the
// memory in use may be garbage. While nothing is allocated no other code would run it, and
// the state would not end.
func (g *Memory) measure() {
	short := g.over()
	if short {
		g.collect()
		short = g.over()
	}
	g.short.Store(short)
}

func (g *Memory) over() bool { return g.used() >= g.limit/10*9 }

// inHeap returns the octets of objects that the last collection has found in use, and of those that were
// allocated since.
func inHeap() (live, allocated uint64) {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	objects, live := s[0].Value.Uint64(), s[1].Value.Uint64()
	return live, objects - min(objects, live)
}

// memoryInUse is the memory that the soft limit counts, without free pages that are not yet
// returned.
func memoryInUse() uint64 {
	s := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64() - s[2].Value.Uint64()
}
