package suite

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/slimwire/swp/test/bench/rawtls"
)

const (
	probes      = 32 // writes that show how fast the disk is
	settledBy   = 3  // times the least median so far, that still counts as settled
	settleEvery = 100 * time.Millisecond
	settleTime  = 10 * time.Second
)

// disk waits until the medium of a folder is as fast as before. A virtual machine may have so
// much of the medium for a while, and much less after many writes: then a window would pay for
// the writes of the one before it.
type disk struct {
	dir   string
	least time.Duration // median of the best probe
}

// settle returns when the disk is settled. The error says that it was not in time.
func (d *disk) settle(ctx context.Context) error {
	for end := time.Now().Add(settleTime); ; {
		median, worst, err := d.probe()
		if err != nil {
			return err
		}
		if d.least == 0 || median < d.least {
			d.least = median
		}
		// The worst shows a limit that lets some writes pass.
		if median <= settledBy*d.least && worst <= settledBy*settledBy*d.least {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the disk takes %v for a write and fdatasync, %v at worst, and took %v: it limits what is stored", median, worst, d.least)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(settleEvery):
		}
	}
}

// probe returns the median of some writes, each with fdatasync, and how long the slowest but
// three took.
func (d *disk) probe() (median, worst time.Duration, err error) {
	f, err := os.CreateTemp(d.dir, "probe-")
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}()
	took, page := make([]time.Duration, probes), make([]byte, 4<<10)
	for i := range took {
		start := time.Now()
		if err := rawtls.Keep(f, page); err != nil {
			return 0, 0, err
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return took[probes/2], took[probes-4], nil
}
