package events

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// start determines the cursor at which delivery starts, and stores it for a subscription
// with a name. So no event after the confirmation is missed.
func (s *subscription) start() error {
	if s.name == "" && !s.resume {
		return nil
	}
	_, last, err := s.bus.opts.Store.Span(s.ctx, spaceLog, logName)
	if err != nil {
		return s.failed(err)
	}
	if s.resume {
		if s.cursor > last {
			return domain(profiles.InvalidProfilePayload, CodeInvalidCursor, "there is no such event yet")
		}
		if s.reader.pos, err = s.bus.held(s.ctx, s.cursor, last); err != nil {
			return s.failed(err)
		}
	}
	if s.name == "" {
		return nil
	}
	for range placeTries {
		version, stored, err := s.bus.opts.Store.Get(s.ctx, spaceNames, s.name)
		if err != nil {
			return s.failed(err)
		}
		switch {
		case version == 0:
			if !s.resume {
				if err := s.inherit(last); err != nil {
					return err
				}
			}
			if wrote, err := s.newName(); err != nil || wrote {
				return err
			}
			continue
		case !s.resume:
			place, whole, err := s.follows(stored, last)
			switch {
			case err != nil:
				return err
			case !whole:
				return domain(profiles.NotFound, CodeGap, "what follows the stored cursor is no longer held; choose a cursor")
			}
			s.reader.pos = place
			return nil
		}
		if wrote, err := s.store(version); err != nil || wrote {
			return err
		}
	}
	return profiles.Busy("contention", "events: the name is in use by others just now")
}

// follows decodes a stored cursor. whole says that the event after it is stored, or not
// published yet.
func (s *subscription) follows(stored []byte, last uint64) (place uint64, whole bool, err error) {
	place, n := binary.Uvarint(stored)
	if n <= 0 || place > last {
		return 0, false, nil
	}
	start, err := s.bus.held(s.ctx, place, last)
	if err != nil {
		return 0, false, s.failed(err)
	}
	return place, start == place, nil
}

// inherit continues after the cursor of the same name of the peer, which it used before it
// asserted its callers.
func (s *subscription) inherit(last uint64) error {
	if s.peers == "" {
		return nil
	}
	version, stored, err := s.bus.opts.Store.Get(s.ctx, spaceNames, s.peers)
	if err != nil {
		return s.failed(err)
	}
	if version == 0 {
		return nil
	}
	if place, whole, err := s.follows(stored, last); err != nil {
		return err
	} else if whole {
		s.reader.pos = place
	}
	return nil
}

// placeTries is how often the lookup of a name is repeated after a concurrent
// change.
const placeTries = 8

// store writes the cursor of a name, if its version is was.
func (s *subscription) store(was uint64) (bool, error) {
	done := make(chan store.PutResult, 1)
	place := binary.AppendUvarint(nil, s.reader.pos)
	s.bus.opts.Store.Put(spaceNames, s.name, was, s.reader.rights.identity, place, time.Time{},
		func(r store.PutResult) { done <- r })
	select {
	case r := <-done:
		if r.Err != nil {
			return false, s.failed(r.Err)
		}
		return r.Wrote, nil
	case <-s.ctx.Done():
		return false, context.Cause(s.ctx)
	}
}

// newName is store for a new name. Only one runs at a time, because the count must not
// change before the name is stored.
func (s *subscription) newName() (bool, error) {
	select {
	case s.bus.naming <- struct{}{}:
		defer func() { <-s.bus.naming }()
	case <-s.ctx.Done():
		return false, context.Cause(s.ctx)
	}
	if err := s.mayName(); err != nil {
		return false, err
	}
	return s.store(0)
}

// mayName refuses one more name than an identity may have.
func (s *subscription) mayName() error {
	n := 0
	err := s.bus.opts.Store.Scan(s.ctx, spaceNames, scoped(s.reader.rights.identity, ""), "", func(string, uint64, []byte) bool {
		n++
		return n < s.bus.opts.Names
	})
	if err != nil {
		return s.failed(err)
	}
	if n >= s.bus.opts.Names {
		return profiles.Busy(DetailBound, "events: too many named subscriptions")
	}
	return nil
}

// failed returns an error of the store, unless the subscription has ended anyway.
func (s *subscription) failed(err error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return profiles.Unavailable(err)
}

// forget removes a name.
func (b *Bus) forget(name string, done func(error)) {
	b.opts.Store.Delete(spaceNames, name, 0, func(_ bool, err error) {
		if err != nil {
			err = profiles.Unavailable(err)
		}
		done(err)
	})
}
