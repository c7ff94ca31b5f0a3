package command

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
)

// How much garbage may be left, unless GOGC says otherwise. Serving allocates little, so
// collecting early is cheap, and resident memory stays near what is in use. Where next to
// nothing is in use there is nothing to save, and every seventy calls of a gateway would
// be a collection.
const (
	gcPercent = 25      // percent of the live heap
	gcHeap    = 8 << 20 // octets, garbage included, up to which none is collected
)

// percentOf is what GOGC has to be while so many octets are in use. The least heap that Go
// collects has 4 MiB at 100, and more in proportion.
func percentOf(used uint64) int {
	const most = gcHeap / (4 << 20) * 100
	if used >= gcHeap {
		return gcPercent
	}
	return int(min(max((gcHeap-used)*100/max(used, 1), gcPercent), most))
}

// collectEarly keeps GOGC at percentOf until ctx ends. used returns the octets that are in
// use, and set sets GOGC.
func collectEarly(ctx context.Context, used func() uint64, set func(percent int)) {
	afterCollections(ctx, 8, func() uint64 { return uint64(percentOf(used())) }, func(percent uint64) { set(int(percent)) })
}

// How many collections limitMemory looks back.
const (
	lately = 128 // for memory in use besides octets in flight, which changes slowly
	latest = 8   // for all memory in use
)

// limiter computes the soft limit of memory.
type limiter struct {
	others [lately]uint64 // octets that the latest collections found in use besides those in flight
	lives  [latest]uint64 // octets that they found in use
	looks  int
}

// limit returns the soft limit after a collection. Octets in flight are at most a bound, and
// memory for as many is granted. A sixteenth more is for garbage, and for free memory that the
// runtime has not returned to the system: it collects the buffers of large messages cheaply.
// Other memory gets the usual percentage for its garbage, so that the limit is felt only where
// the octets in flight come near their bound.
//
// A collection also finds in use what was allocated while it ran, which is much on a busy machine.
// The least of the latest findings has the least of these octets. If more has come to be in use,
// the limit leaves a sixteenth of it for garbage; again the least finding counts, because a limit
// above one that has too much would let the next have more.
func (l *limiter) limit(m memory, used, bound int) uint64 {
	l.others[l.looks%lately] = max(m.live, uint64(used)) - uint64(used)
	l.lives[l.looks%latest] = m.live
	l.looks++
	other := slices.Min(l.others[:min(l.looks, lately)])
	want := other + other*gcPercent/100 + uint64(bound) + max(uint64(bound)/16, gcHeap)
	live := slices.Min(l.lives[:min(l.looks, latest)])
	return m.beside + max(want, live+live/16)
}

// limitMemory sets the soft limit of memory by a limiter until ctx ends. octets returns the
// octets in flight and their bound.
func limitMemory(ctx context.Context, octets func() (used, bound int), now func() memory, set func(limit uint64)) {
	var l limiter
	afterCollections(ctx, 64, func() uint64 {
		used, bound := octets()
		return l.limit(now(), used, bound)
	}, set)
}

// setting is adjusted after every collection.
type setting struct {
	ctx  context.Context
	fine uint64
	want func() uint64
	set  func(uint64)
	now  uint64
}

// afterCollections sets a value now and after every collection, until ctx ends. A value that
// differs by less than its part 1/fine is not set again.
func afterCollections(ctx context.Context, fine uint64, want func() uint64, set func(uint64)) {
	s := &setting{ctx: ctx, fine: fine, want: want, set: set}
	s.look()
}

// look sets the value, unless it is near enough: setting it stops the world. The
// next look is when what this one leaves behind has been collected.
func (s *setting) look() {
	if s.ctx.Err() != nil {
		return
	}
	if want := s.want(); s.fine*(max(want, s.now)-min(want, s.now)) > s.now {
		s.now = want
		s.set(want)
	}
	runtime.AddCleanup(new(mark), (*setting).look, s)
}

// mark is garbage at once. It has a pointer, so that it shares its memory with nothing.
type mark struct{ _ *mark }

// liveHeap returns what the latest collection has found in use.
func liveHeap() uint64 { return read("/gc/heap/live:bytes")[0] }

// memory is the memory of the Go runtime.
type memory struct {
	live   uint64 // of the heap, as the latest collection has found it
	beside uint64 // stacks and the like
}

func memoryNow() memory {
	m := read("/gc/heap/live:bytes", "/memory/classes/total:bytes", "/memory/classes/heap/objects:bytes", "/memory/classes/heap/unused:bytes",
		"/memory/classes/heap/free:bytes", "/memory/classes/heap/released:bytes")
	return memory{live: m[0], beside: m[1] - m[2] - m[3] - m[4] - m[5]}
}

// read returns metrics of the runtime.
func read(names ...string) []uint64 {
	samples := make([]metrics.Sample, len(names))
	for i, name := range names {
		samples[i].Name = name
	}
	metrics.Read(samples)
	values := make([]uint64, len(names))
	for i := range samples {
		values[i] = samples[i].Value.Uint64()
	}
	return values
}

func setPercent(percent int) { debug.SetGCPercent(percent) }

// presentLimit returns the soft limit of memory that GOMEMLIMIT sets, or one that is none.
func presentLimit() uint64 { return uint64(debug.SetMemoryLimit(-1)) }

func setLimit(limit uint64) { debug.SetMemoryLimit(int64(limit)) }
