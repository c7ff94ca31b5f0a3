package command

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// How much garbage may be left, unless GOGC says otherwise. Serving allocates little, so
// collecting early is cheap, and resident memory stays near what is in use. Where next to
// nothing is in use there is nothing to save, and every seventy calls of a gateway would
// be a collection. Octets in flight are in few large buffers, which are collected cheaply and
// would leave large garbage.
const (
	gcPercent  = 25      // percent of the live heap besides octets in flight
	gcInFlight = 6       // percent of octets in flight
	gcHeap     = 8 << 20 // octets, garbage included, up to which none is collected
)

// live is what the latest collection has found in use.
type live struct{ heap, inFlight uint64 } // octets; those in flight are in the heap

// percent is what GOGC has to be. The least heap that Go collects has 4 MiB at 100, and more in
// proportion.
func (l live) percent() int {
	const most = gcHeap / (4 << 20) * 100
	if l.heap < gcHeap {
		return int(min(max((gcHeap-l.heap)*100/max(l.heap, 1), gcPercent), most))
	}
	large := min(l.inFlight, l.heap)
	return int(((l.heap-large)*gcPercent + large*gcInFlight) / l.heap)
}

// bounded returns what bounds the garbage beside the octets in flight, or nil if GOGC says how much
// there may be.
func bounded(ctx context.Context) func(octets func() int) {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return func(octets func() int) {
		collectEarly(ctx, func() live { return live{heap: liveHeap(), inFlight: uint64(octets())} }, setPercent)
	}
}

// collectEarly adjusts GOGC to the memory in use until ctx ends.
func collectEarly(ctx context.Context, now func() live, set func(percent int)) {
	s := &setting{ctx: ctx, want: func() int { return now().percent() }, set: set}
	s.look()
}

// setting is GOGC. It is adjusted after every collection.
type setting struct {
	ctx  context.Context
	want func() int
	set  func(int)
	now  int
}

// look sets the value, unless it is near enough: setting it stops the world. The
// next look is when what this one leaves behind has been collected.
func (s *setting) look() {
	if s.ctx.Err() != nil {
		return
	}
	if want := s.want(); 8*(max(want, s.now)-min(want, s.now)) > s.now {
		s.now = want
		s.set(want)
	}
	runtime.AddCleanup(new(mark), (*setting).look, s)
}

// mark is garbage at once. It has a pointer, so that it shares its memory with nothing.
type mark struct{ _ *mark }

// liveHeap returns what the latest collection has found in use.
func liveHeap() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func setPercent(percent int) { debug.SetGCPercent(percent) }
