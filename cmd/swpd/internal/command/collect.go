package command

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
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

// collector adjusts GOGC after every collection.
type collector struct {
	ctx  context.Context
	used func() uint64
	set  func(percent int)
	now  int
}

// collectEarly keeps GOGC at percentOf until ctx ends. used returns the octets that are in
// use, and set sets GOGC.
func collectEarly(ctx context.Context, used func() uint64, set func(percent int)) {
	c := &collector{ctx: ctx, used: used, set: set}
	c.look()
}

// look sets GOGC, unless what it is now is near enough: setting it stops the world. The
// next look is when what this one leaves behind has been collected.
func (c *collector) look() {
	if c.ctx.Err() != nil {
		return
	}
	if percent := percentOf(c.used()); 8*max(percent-c.now, c.now-percent) > c.now {
		c.now = percent
		c.set(percent)
	}
	runtime.AddCleanup(new(mark), (*collector).look, c)
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
