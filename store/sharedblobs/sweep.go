package sharedblobs

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/blocks"
	"github.com/slimwire/swp/store/internal/clock"
)

// sweeper works in the background until the store is closed: it removes expired contents, counts the usage that is in doubt, and searches for objects without a record.
func (s *Store) sweeper() {
	tick := time.NewTicker(s.options.lapse / 2)
	defer tick.Stop()
	search := time.Now()
	seen := make(map[blocks.ID]sighting)
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		err := s.round(seen)
		if err == nil && time.Since(search) > searchEvery {
			search = time.Now()
			err = s.search(s.ctx, garbageAge)
		}
		if err != nil && s.ctx.Err() == nil {
			s.notice("%v", err)
		}
	}
}

// sighting is when a process was first seen with its present number.
type sighting struct {
	number uint64
	since  time.Time
}

// round removes ended processes and expired contents, and counts usage in doubt.
func (s *Store) round(seen map[blocks.ID]sighting) error {
	l, err := s.ledger(s.ctx)
	if err != nil {
		return err
	}
	for id := range seen {
		if l.processes[id] == nil {
			delete(seen, id)
		}
	}
	for id, p := range l.processes {
		was, known := seen[id]
		switch {
		case id == s.process:
		case !known || was.number != p.number:
			seen[id] = sighting{p.number, time.Now()}
		case time.Since(was.since) >= s.options.lapse:
			err = s.accounts.do(func(l *ledger) error {
				if p := l.processes[id]; p != nil && p.number == was.number {
					l.remove(id)
				}
				return nil
			}, nil)
			if err != nil {
				return err
			}
		}
	}
	if err := s.sweep(s.ctx); err != nil {
		return err
	}
	return s.recount(s.ctx)
}

// ledger returns a copy of the ledger.
func (s *Store) ledger(ctx context.Context) (*ledger, error) {
	version, value, err := s.options.Records.Get(ctx, s.options.stateSpace(), ledgerName)
	if err != nil {
		return nil, unavailable(err)
	}
	if version == 0 {
		return newLedger(), nil
	}
	l, err := decodeLedger(value)
	if err != nil {
		return nil, damagedRecord(s.options.stateSpace(), ledgerName, err)
	}
	return l, nil
}

// sweep removes expired parts and blobs. It skips names that an operation works on until the
// next sweep. While one process sweeps, the others do not.
func (s *Store) sweep(ctx context.Context) error {
	s.sweeps.Lock()
	defer s.sweeps.Unlock()
	now := s.clock.Now()
	if l, err := s.ledger(ctx); err != nil || l.due > now {
		return err
	}
	claimed := false
	err := s.accounts.do(func(l *ledger) error {
		if claimed = l.due <= now; claimed {
			l.due = math.MaxInt64
			l.process(s.process).sweeping = true
		}
		return nil
	}, func(l *ledger) { l.due = 0 })
	if err != nil || !claimed {
		return err
	}
	due := int64(math.MaxInt64)
	later := func(at int64) {
		if at != 0 {
			due = min(due, at)
		}
	}
	err = s.each(ctx, func(name string, e *entry) error {
		ended := false
		for _, c := range []*content{e.part, e.blob} {
			if c != nil {
				ended = ended || clock.Expired(c.expires, now)
				later(c.expires)
			}
		}
		if !ended {
			return nil
		}
		return s.expire(name, now)
	})
	if err != nil {
		due = now // once more
	}
	s.accounts.later(true, func(l *ledger) {
		l.process(s.process).sweeping = false
		l.expires(due)
	})
	return err
}

// expire removes the expired part and blob of a name.
func (s *Store) expire(name string, now int64) error {
	release, ok := s.lines.Claim(name)
	if !ok {
		return nil
	}
	defer release()
	return s.tries(name, nil, func(t *turn) error {
		if c := t.entry.part; c != nil && clock.Expired(c.expires, now) {
			if _, err := t.discard(); err != nil || t.entry.blob == nil {
				return err
			}
			return errRace // for the blob
		}
		if c := t.entry.blob; c != nil && clock.Expired(c.expires, now) {
			_, err := t.remove(c, t.entry.part, nil)
			return err
		}
		return nil
	})
}

// page is how many names each reads at once.
const page = 500

// each calls yield with all entries. yield may use the records.
func (s *Store) each(ctx context.Context, yield func(name string, e *entry) error) error {
	type one struct {
		name string
		e    *entry
	}
	for after := ""; ; {
		var all []one
		var bad error
		err := s.options.Records.Scan(ctx, s.options.Space, "", after, func(name string, _ uint64, value []byte) bool {
			e, err := decodeEntry(value)
			if err != nil {
				bad = damagedRecord(s.options.Space, name, err)
				return false
			}
			all = append(all, one{name, e})
			return len(all) < page
		})
		if err != nil {
			return unavailable(err)
		}
		for _, a := range all {
			if err := yield(a.name, a.e); err != nil {
				return err
			}
		}
		switch {
		case bad != nil:
			return bad
		case len(all) < page:
			return nil
		}
		after = all[len(all)-1].name
	}
}

// recount counts the usage of owners that is in doubt, unless an operation has them open. If
// one opens them during the count, the count is repeated later.
func (s *Store) recount(ctx context.Context) error {
	l, err := s.ledger(ctx)
	if err != nil {
		return err
	}
	type count struct{ octets, items int64 }
	counts := make(map[string]*count)
	for owner, a := range l.owners {
		if a.doubt && !l.open(owner) {
			counts[owner] = new(count)
		}
	}
	if len(counts) == 0 {
		return nil
	}
	err = s.each(ctx, func(_ string, e *entry) error {
		for _, c := range []*content{e.part, e.blob} {
			if c == nil {
				continue
			}
			if n := counts[fair.Short(c.owner)]; n != nil {
				n.octets += int64(c.size())
				n.items++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.accounts.do(func(now *ledger) error {
		for owner, n := range counts {
			a, was := now.owners[owner], l.owners[owner]
			if a == nil || a.changes != was.changes || now.open(owner) {
				continue
			}
			a.doubt = false
			now.charge(owner, n.octets-a.octets, n.items-a.items)
		}
		return nil
	}, nil)
}

// The search for objects without a record.
const (
	// searchEvery is its pause in a process.
	searchEvery = time.Hour

	// garbageAge is how old an object must be to be removed. No operation takes so long from
	// the object to the record, see maxTimeout.
	garbageAge = 2 * time.Hour
	maxTimeout = garbageAge / 4
)

// search removes objects that no record names and that are older than a duration. Full
// segments of a part stay: they may be written again at any moment, with the same octets.
func (s *Store) search(ctx context.Context, age time.Duration) error {
	if err := s.belongs(ctx); err != nil {
		return err
	}
	now, err := s.mediumTime(ctx)
	if err != nil {
		return err
	}
	known := make(map[string]map[string]bool) // keys of tails, by key of the group
	err = s.each(ctx, func(_ string, e *entry) error {
		for _, c := range []*content{e.part, e.blob} {
			if c != nil {
				tails := make(map[string]bool, len(c.tail))
				for _, key := range c.tailKeys(c.tail) {
					tails[key] = true
				}
				known[c.groupKey()] = tails
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	removed, found := 0, []string(nil)
	remove := func() error {
		removed += len(found)
		err := s.options.Objects.Delete(ctx, found...)
		found = nil
		return unavailable(err)
	}
	for _, prefix := range []string{groups, probes} {
		var failed error
		err = s.options.Objects.List(ctx, prefix, func(key string, written time.Time) bool {
			group := key[:min(len(key), len(groups)+2*len(blocks.ID{})+1)]
			tails, live := known[group]
			if now.Sub(written) < age || s.isPinned(group) || live && (tails[key] || isFull(group, key)) {
				return true
			}
			if found = append(found, key); len(found) == page {
				failed = remove()
			}
			return failed == nil
		})
		if err = errors.Join(err, failed); err != nil {
			return unavailable(err)
		}
	}
	if len(found) > 0 {
		if err := remove(); err != nil {
			return err
		}
	}
	if removed > 0 {
		s.notice("%d objects without a record were removed", removed)
	}
	return nil
}

// isFull reports whether a key belongs to a full segment of a group.
func isFull(group, key string) bool {
	return len(key) > len(group)+len(fullBegin) && key[len(group):len(group)+len(fullBegin)] == fullBegin
}

// mediumTime returns the time on the clock of the medium.
func (s *Store) mediumTime(ctx context.Context) (now time.Time, err error) {
	if err := s.options.Objects.Put(ctx, s.probeKey(), s.process[:]); err != nil {
		return now, unavailable(err)
	}
	err = s.options.Objects.List(ctx, probes, func(key string, written time.Time) bool {
		if key == s.probeKey() {
			now = written
		}
		return now.IsZero()
	})
	if err == nil && now.IsZero() {
		err = store.ErrUnavailable
	}
	return now, unavailable(err)
}
