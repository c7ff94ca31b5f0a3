package sqlstore

import (
	"context"
	"time"

	"github.com/slimwire/swp/store"
)

// WaitChecked waits until structure and rows of a store were checked.
func (s *Store) WaitChecked() { s.checks.done.Wait() }

// Scrub reads every row as the check in the background does.
func (s *Store) Scrub(ctx context.Context) error {
	c, err := connect(s.file, readOnly)
	if err != nil {
		return err
	}
	scrubber{s: s, conn: c, alone: true}.run(ctx)
	return c.close()
}

// MarkOf returns the content of a mark.
func MarkOf(commits int64, level store.Durability, boot string) []byte {
	return mark{commits, level, boot}.append(nil)
}

// BootID is what tells runs of this machine apart.
var BootID = bootID

// Clock is a clock without a store.
func Clock(now func() time.Time, floor int64) (read func() int64, expiry func(time.Time) int64) {
	c := newClock(now, floor)
	return c.now, c.expiry
}
