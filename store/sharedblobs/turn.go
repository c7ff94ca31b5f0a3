package sharedblobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/lines"
)

// operation is what a submitted operation does.
type operation struct {
	do func(t *turn) (bool, error) // nil for an Append

	at, mark uint64 // of an Append
	data     []byte
}

type pending = lines.Operation[operation]

func (s *Store) submit(name, owner string, octets int, op operation, done func(ok bool, err error)) {
	s.lines.Submit(name, &pending{Owner: owner, Octets: octets, Joins: op.do == nil, Args: op, Done: done})
}

// turn is one try to perform an operation, with the entry of its name.
type turn struct {
	s       *Store
	ctx     context.Context
	name    string
	version uint64 // of the record; 0: there is none
	entry   *entry
	page    *sheet
}

// errRace is the error of a try in which another process has changed the name.
var errRace = errors.New("another process has changed it")

// perform performs several Appends, or one other operation.
func (s *Store) perform(name string, ops []*pending) {
	owner := ops[0].Owner
	_ = s.writing.Take(context.Background(), owner) // never fails without an end of the context
	defer s.writing.Give(owner)
	page := s.borrowSheet()
	defer func() { s.writers <- page }()
	err := s.tries(name, page, func(t *turn) error {
		if ops[0].Args.do == nil {
			return t.grow(ops)
		}
		var err error
		ops[0].OK, err = ops[0].Args.do(t)
		return err
	})
	if err != nil {
		for _, op := range ops {
			op.OK, op.Err = false, err
		}
	}
}

// tries performs an operation, again if another process changes the name during it.
func (s *Store) tries(name string, page *sheet, do func(t *turn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.options.Timeout)
	defer cancel()
	for {
		t := &turn{s: s, ctx: ctx, name: name, page: page}
		var err error
		if t.version, t.entry, err = s.load(ctx, name); err == nil {
			s.remember(name, t.entry)
			err = do(t)
		}
		if !errors.Is(err, errRace) {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %q: %w", store.ErrUnavailable, name, err)
		}
	}
}

// maxOwners is how many owners of parts are remembered.
const maxOwners = 4096

// remember keeps the owner of a part: its Appends count to the share of the owner.
func (s *Store) remember(name string, e *entry) {
	s.ownersMu.Lock()
	defer s.ownersMu.Unlock()
	switch {
	case e.part == nil:
		delete(s.owners, name)
	case len(s.owners) < maxOwners:
		s.owners[name] = e.part.owner
	default:
		clear(s.owners)
	}
}

// owner returns the owner of the part of a name if it is remembered.
func (s *Store) owner(name string) string {
	s.ownersMu.Lock()
	defer s.ownersMu.Unlock()
	return s.owners[name]
}

// load reads the entry of a name. Without a record the entry is empty.
func (s *Store) load(ctx context.Context, name string) (version uint64, e *entry, err error) {
	version, value, err := s.options.Records.Get(ctx, s.options.Space, name)
	switch {
	case err != nil:
		return 0, nil, unavailable(err)
	case version == 0:
		return 0, new(entry), nil
	}
	if e, err = decodeEntry(value); err != nil {
		return version, nil, damagedRecord(s.options.Space, name, err)
	}
	return version, e, nil
}

// errUnsure is the error of a replacement that can still take effect.
var errUnsure = errors.New("it is not known whether it is stored")

// removalKept is how long the record of a removal stays. A process that has read the name
// before does not mistake a new record for the old one.
const removalKept = 10 * time.Minute

// replace replaces the whole entry of a name. The error is errRace if another process has
// changed it, and errUnsure if the replacement can still take effect.
func (t *turn) replace(part, blob *content) error {
	s, next := t.s, &entry{part, blob}
	if err := t.ctx.Err(); err != nil {
		return unavailable(err)
	}
	if !s.accounts.alive() {
		return fmt.Errorf("%w: the records have not answered for too long", store.ErrUnavailable)
	}
	var expires time.Time
	if part == nil && blob == nil {
		expires = time.Now().Add(removalKept)
	}
	value := next.encode()
	result := put(s.options.Records, s.options.Space, t.name, t.version, value, expires)
	switch {
	case errors.Is(result.Err, store.ErrUnavailable):
		return t.readBack(value, result.Err)
	case result.Err != nil:
		return result.Err
	case !result.Wrote:
		return errRace
	}
	return nil
}

// readBack finds out whether a record was written after all.
func (t *turn) readBack(value []byte, failure error) error {
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	_, stored, err := t.s.options.Records.Get(ctx, t.s.options.Space, t.name)
	if err == nil && bytes.Equal(stored, value) {
		return nil
	}
	return fmt.Errorf("%w: %w", errUnsure, failure)
}

// claim is an operation in progress, as the ledger knows it.
type claim struct {
	t       *turn
	owners  []string
	charged int64 // octets of owners[0]
	items   int64
	made    []string // keys of objects for it
}

// charge says what an operation adds to the usage of its owner, if room allows that. It is
// called for each try to write the ledger.
type charge func(room func(octets uint64, items int) error) (octets uint64, items int, err error)

func nothing(func(uint64, int) error) (uint64, int, error) { return 0, 0, nil }

// noRoom reports whether a quota has refused a claim.
func noRoom(err error) bool { return errors.Is(err, store.ErrQuota) || errors.Is(err, store.ErrShare) }

// claim enters an operation in the ledger, for an owner and the owners of other contents that
// it removes. expires is the expiry of the new content. with is called with the ledger; it may be
// nil.
//
// If there is no room, expired contents are removed first. That needs claims in turn, so that an
// operation that adds nothing uses claimOnce.
func (t *turn) claim(owner string, of charge, expires int64, with func(*ledger), others ...*content) (*claim, error) {
	c, err := t.claimOnce(owner, of, expires, with, others...)
	if noRoom(err) {
		if swept := t.s.sweep(t.ctx); swept != nil {
			t.s.notice("%v", swept)
		}
		c, err = t.claimOnce(owner, of, expires, with, others...)
	}
	return c, err
}

func (t *turn) claimOnce(owner string, of charge, expires int64, with func(*ledger), others ...*content) (*claim, error) {
	c := &claim{t: t, owners: []string{owner}}
	for _, other := range others {
		if other != nil {
			c.owners = append(c.owners, other.owner)
		}
	}
	id := t.s.process
	err := t.s.accounts.do(func(l *ledger) error {
		octets, items, err := of(func(octets uint64, items int) error { return l.room(owner, octets, items) })
		if err != nil {
			return err
		}
		for _, owner := range c.owners {
			l.enter(id, owner)
		}
		c.charged, c.items = int64(octets), int64(items)
		l.charge(owner, c.charged, c.items)
		l.expires(expires)
		if with != nil {
			with(l)
		}
		return nil
	}, func(l *ledger) {
		l.leave(id, owner, -c.charged, -c.items)
		for _, owner := range c.owners[1:] {
			l.leave(id, owner, 0, 0)
		}
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// end leaves the ledger. After success, removed are the contents that are gone, with all their
// octets, and left the keys of other objects that nothing names any more. end returns err.
func (c *claim) end(err error, left []string, removed ...*content) error {
	s := c.t.s
	switch {
	case errors.Is(err, errUnsure):
		s.accounts.later(true, func(l *ledger) {
			for _, owner := range c.owners {
				l.leave(s.process, owner, 0, 0)
				l.doubt(owner)
			}
		})
		return err // the objects may be named; if not, the search finds them
	case err != nil:
		s.accounts.later(true, func(l *ledger) {
			l.leave(s.process, c.owners[0], -c.charged, -c.items)
			for _, owner := range c.owners[1:] {
				l.leave(s.process, owner, 0, 0)
			}
		})
		s.drop(c.made)
		return err
	}
	gives := len(removed) > 0
	s.accounts.later(gives, func(l *ledger) {
		for _, owner := range c.owners {
			l.leave(s.process, owner, 0, 0)
		}
		for _, gone := range removed {
			l.charge(gone.owner, -int64(gone.size()), -1)
		}
	})
	for _, gone := range removed {
		s.dropGroup(gone)
	}
	s.drop(left)
	return nil
}
