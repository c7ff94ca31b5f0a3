package sharedblobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/blocks"
	"github.com/slimwire/swp/store/internal/clock"
)

// accounts changes the ledger for a process. One goroutine writes what has come since its
// last write.
type accounts struct {
	records store.Records
	space   string
	clock   *clock.Clock
	id      blocks.ID // of the process
	lapse   time.Duration

	mu      sync.Mutex
	bounds  store.BlobLimits
	waiting []*change
	delayed bool // rouse will be called
	closed  bool
	written time.Time // of the last write that succeeded
	pools   []fair.Pool

	wake chan struct{} // has one slot
	done chan struct{} // closed when the goroutine has ended

	// The goroutine has these.
	now     *ledger // nil: unknown
	version uint64  // of the record
	number  uint64  // of writes
	unsure  *doubt
	again   []*change // to be written with the next ones
}

// change is a change of the ledger. apply may be called several times, each time with a
// ledger without the change; an error means that it has changed nothing.
type change struct {
	apply func(l *ledger) error
	undo  func(l *ledger) // if a failure was told, and the change turns out to be written
	told  chan error      // has one slot; nil: the change is repeated until it is written
	err   error           // of apply
	over  bool            // told has got its error
}

func (c *change) tell(err error) {
	if c.told != nil && !c.over {
		c.over = true
		c.told <- err
	}
}

// doubt is a write of which it is not known whether it took effect.
type doubt struct {
	number  uint64
	entered bool // the ledger had the process before
	changes []*change
	err     error
}

// ledgerName is the key of the ledger in the space for state.
const ledgerName = "ledger"

// do changes the ledger, and waits.
func (a *accounts) do(apply func(l *ledger) error, undo func(l *ledger)) error {
	c := &change{apply: apply, undo: undo, told: make(chan error, 1)}
	if !a.add(c, true) {
		return store.ErrClosed
	}
	return <-c.told
}

// later changes the ledger after the return: at once, or together with the next change that
// comes within delay.
func (a *accounts) later(now bool, apply func(l *ledger)) {
	a.add(&change{apply: func(l *ledger) error { apply(l); return nil }}, now)
}

func (a *accounts) add(c *change, now bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.waiting = append(a.waiting, c)
	switch {
	case now:
		a.rouse()
	case !a.delayed:
		a.delayed = true
		time.AfterFunc(delay, func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.delayed = false
			a.rouse()
		})
	}
	return true
}

// delay is how long a change waits for others that are written together with it.
const delay = 100 * time.Millisecond

// rouse makes the goroutine write.
func (a *accounts) rouse() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// alive reports whether other processes still count on this one. After a pause without a
// write they may have counted the usage of owners without its operations.
func (a *accounts) alive() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Since(a.written) < a.lapse/2
}

// setBounds changes the bounds.
func (a *accounts) setBounds(b store.BlobLimits) {
	a.mu.Lock()
	a.bounds = b
	a.mu.Unlock()
	a.later(true, func(*ledger) {})
}

// close writes the changes that wait, and ends the goroutine.
func (a *accounts) close() {
	a.mu.Lock()
	a.closed = true
	a.waiting = append(a.waiting, &change{apply: func(l *ledger) error {
		if p := l.processes[a.id]; p != nil && len(p.open) == 0 && !p.sweeping {
			delete(l.processes, a.id)
		}
		return nil
	}})
	a.rouse()
	a.mu.Unlock()
	<-a.done
}

// retry is the pause after a write that failed.
const retry = time.Second

// run writes changes until close.
func (a *accounts) run() {
	defer close(a.done)
	beat := time.NewTicker(a.lapse / 8)
	defer beat.Stop()
	for {
		a.mu.Lock()
		batch, closed := a.waiting, a.closed
		a.waiting = nil
		a.mu.Unlock()
		a.write(batch)
		unwritten := a.unsure != nil || len(a.again) > 0
		if closed {
			if unwritten {
				a.write(nil)
			}
			return
		}
		var pause <-chan time.Time
		if unwritten {
			pause = time.After(retry)
		}
		select {
		case <-a.wake:
		case <-beat.C:
		case <-pause:
		}
	}
}

// write writes changes, and tells them. Without changes it shows that the process lives, if
// it has something open. Changes that are not written are in unsure or again.
func (a *accounts) write(batch []*change) {
	err := a.resolve()
	batch = slices.Concat(a.again, batch)
	a.again = nil
	for err == nil && (len(batch) > 0 || a.open()) {
		var wrote bool
		if wrote, err = a.try(batch); wrote {
			a.publish()
			return
		}
	}
	for _, c := range batch {
		if c.told == nil {
			a.again = append(a.again, c)
		}
		c.tell(err)
	}
}

// open reports whether something is open for the process.
func (a *accounts) open() bool {
	if a.now == nil {
		return false
	}
	p := a.now.processes[a.id]
	return p != nil && len(p.open) > 0
}

// try writes changes once, and tells them if it did. wrote is false without an error if
// another process has written before.
func (a *accounts) try(batch []*change) (wrote bool, err error) {
	if a.now == nil {
		if err := a.load(); err != nil {
			return false, err
		}
	}
	l := a.now
	a.now = nil // until it is written
	a.mu.Lock()
	l.usage.Bound(a.bounds)
	a.mu.Unlock()
	_, entered := l.processes[a.id]
	a.number++
	l.process(a.id).number = a.number
	l.clock = max(l.clock, a.clock.Now())
	for _, c := range batch {
		c.err = c.apply(l)
	}
	value := l.encode()
	if len(value) > store.MaxValue {
		return false, fmt.Errorf("%w: the names of owners need %d octets, limit %d", store.ErrQuota, len(value), store.MaxValue)
	}
	result := put(a.records, a.space, ledgerName, a.version, value, time.Time{})
	switch {
	case errors.Is(result.Err, store.ErrUnavailable):
		a.unsure = &doubt{a.number, entered, batch, result.Err}
		if err := a.resolve(); err != nil {
			for _, c := range batch {
				c.tell(result.Err)
			}
			return true, nil // resolve has taken over the batch
		}
		return true, nil
	case result.Err != nil:
		return false, result.Err
	case result.Wrote:
		a.now, a.version = l, result.Version
		a.lives()
		for _, c := range batch {
			c.tell(c.err)
		}
		return true, nil
	}
	a.now, a.version, err = a.decode(result.Version, result.Current)
	return false, err
}

// resolve finds out whether the last write took effect, if that is not known.
func (a *accounts) resolve() error {
	was := a.unsure
	if was == nil {
		return nil
	}
	if err := a.load(); err != nil {
		return err
	}
	a.unsure = nil
	p := a.now.processes[a.id]
	applied := p != nil && p.number >= was.number
	removed := p == nil && was.entered // so that the usage of its owners is in doubt
	if applied {
		a.lives()
	}
	for _, c := range was.changes {
		switch {
		case c.told == nil && !applied && !removed:
			a.again = append(a.again, c)
		case c.over && applied && c.err == nil && c.undo != nil:
			a.again = append(a.again, &change{apply: func(l *ledger) error { c.undo(l); return nil }})
		case applied:
			c.tell(c.err)
		default:
			c.tell(was.err)
		}
	}
	return nil
}

// lookTime limits a read of a record that another operation waits for.
const lookTime = 10 * time.Second

// load reads the ledger.
func (a *accounts) load() error {
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	version, value, err := a.records.Get(ctx, a.space, ledgerName)
	if err != nil {
		return unavailable(err)
	}
	a.now, a.version, err = a.decode(version, value)
	return err
}

func (a *accounts) decode(version uint64, value []byte) (*ledger, uint64, error) {
	switch {
	case version == 0 && a.version == 0:
		return newLedger(), 0, nil
	case version == 0:
		return nil, a.version, fmt.Errorf("%w: the record of usage is gone", store.ErrDamaged)
	}
	l, err := decodeLedger(value)
	if err != nil {
		return nil, a.version, damagedRecord(a.space, ledgerName, err)
	}
	return l, version, nil
}

// publish notes what others ask about the last write.
func (a *accounts) publish() {
	if a.now == nil {
		return
	}
	pools := []fair.Pool{a.now.usage.Octets.Pool("artifact octets"), a.now.usage.Items.Pool("artifacts")}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pools = pools
}

// lives notes that a write succeeded.
func (a *accounts) lives() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.written = time.Now()
}

// damagedRecord is the error of a record that cannot be decoded.
func damagedRecord(space, key string, err error) error {
	if errors.Is(err, store.ErrVersion) {
		return fmt.Errorf("%w: the record %q of %s", err, key, space)
	}
	return fmt.Errorf("%w: the record %q of %s: %w", store.ErrDamaged, key, space, err)
}

// put writes a record, and waits.
func put(records store.Records, space, key string, was uint64, value []byte, expires time.Time) store.PutResult {
	told := make(chan store.PutResult, 1)
	records.Put(space, key, was, "", value, expires, func(r store.PutResult) { told <- r })
	return <-told
}
