package command

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
)

// wanted is how much a command receives before it ends, and for how long it waits.
type wanted struct {
	what  string // in the plural
	count uint64 // 0: no end
	wait  time.Duration
	came  atomic.Uint64
}

func (w *wanted) flags(cmd *cobra.Command, what string) {
	w.what = what
	cmd.Flags().Uint64Var(&w.count, "count", 0, "end after so many "+what+"; 0 = never")
	cmd.Flags().DurationVar(&w.wait, "wait", 0, "with --count: time for them to arrive, else the exit code is 1; 0 = no limit")
}

func (w *wanted) check() error {
	switch {
	case w.wait < 0:
		return &usageError{"--wait is at least 0"}
	case w.wait > 0 && w.count == 0:
		return &usageError{"--wait limits the time for --count, which is missing"}
	}
	return nil
}

// within calls do, which ends with its context. The error says how much has come if that is
// not enough when the time is over.
func (w *wanted) within(ctx context.Context, do func(ctx context.Context) error) error {
	if w.wait == 0 {
		return do(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, w.wait)
	defer cancel()
	err := do(limited)
	over := ctx.Err() == nil && limited.Err() != nil && (err == nil || errors.Is(err, context.DeadlineExceeded))
	if came := w.came.Load(); over && came < w.count {
		return fmt.Errorf("%d of %d %s came in %v", came, w.count, w.what, w.wait)
	}
	return err
}
