package state

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// put serves a STATE_PUT. It is checked against the store off the read loop, in its turn.
func (s *Service) put(req *profiles.Request) error {
	var m Put
	if err := m.Decode(req.Payload); err != nil {
		return err
	}
	id, ok := idOf(m.StateID)
	if !ok {
		return invalid(CodeHashMismatch, "state_id: %d octets, want %d", len(m.StateID), IDSize)
	}
	if err := checkParents(m.ParentIDs, m.StateID); err != nil {
		return err
	}
	owner := req.Identity()
	req.About("put", nameOf(id))
	switch {
	case s.opts.Store == nil:
		return errNotKept
	case !s.allowed(owner, "put", id):
		return errDenied
	}
	p := &putting{change: s.change(owner, id, m.ParentIDs), value: m.Append(make([]byte, 0, m.Size()))}
	p.begin(req.Lane, req.Defer(), p.check, p.store)
	return nil
}

// change is a change of a state by a message.
type change struct {
	s       *Service
	owner   string // who wants it
	id      ID
	key     key // of the owner's state
	parents []ID
	turn    *turn
	done    func(error)
}

func (s *Service) change(owner string, id ID, parents [][]byte) change {
	c := change{s: s, owner: owner, id: id, key: keyOf(owner, id), parents: make([]ID, len(parents))}
	for i, octets := range parents {
		copy(c.parents[i][:], octets)
	}
	return c
}

// begin waits, off the read loop, for earlier operations on the lane, on the same state and
// on its parents. Then it checks the change and passes it to the store. done is called with
// the result. begin is called in order of arrival, which determines the turns. The lane may
// be nil.
func (c *change) begin(lane profiles.Lane, done func(error), check func(context.Context) error, store func()) {
	own := make([]key, len(c.parents))
	for i, id := range c.parents {
		own[i] = keyOf(c.owner, id)
	}
	onLane, turn, wait := c.s.turns.take(lane, c.key, own)
	c.turn, c.done = turn, done
	ready := func() error {
		if err := await(c.s.ctx, wait); err != nil {
			return err
		}
		if err := c.s.slots.Take(c.s.ctx, c.owner); err != nil {
			return err
		}
		defer c.s.slots.Give(c.owner)
		return check(c.s.ctx)
	}
	run := func() {
		defer onLane.end()
		if err := ready(); err != nil {
			c.end(c.s.unavailable(err))
			return
		}
		store()
	}
	if !c.s.spawn(run) {
		onLane.end()
		c.end(errEnding)
	}
}

// end ends the change. Operations that wait for its turn continue before the peer is
// answered.
func (c *change) end(err error) {
	c.turn.end()
	c.done(err)
}

// haveParents returns an error unless all parents are stored and visible to the owner.
func (c *change) haveParents(ctx context.Context) error {
	for _, id := range c.parents {
		f, err := c.s.find(ctx, c.owner, id, "get", false)
		switch {
		case err != nil:
			return err
		case f.key == "":
			return invalid(CodeParentMissing, "parent %x is not stored", id)
		}
	}
	return nil
}

// putting is a PUT being stored.
type putting struct {
	change
	value []byte    // its payload in canonical form
	until time.Time // when it expires
	era   uint64    // see seen
}

func (p *putting) check(ctx context.Context) error {
	var m Put
	if err := m.Decode(p.value); err != nil {
		return err
	}
	if IDOf(m.Blob) != p.id {
		return invalid(CodeHashMismatch, "state_id is not the SHA-256 of blob")
	}
	return p.haveParents(ctx)
}

func (p *putting) store() {
	s := p.s
	known, era := s.seen.has(p.key)
	p.era, p.until = era, s.until()
	s.opts.Store.Put(spaceStates, string(p.key), 0, p.owner, p.value, p.until, func(r store.PutResult) {
		switch {
		case r.Err != nil:
			p.end(profiles.Unavailable(r.Err))
		case r.Wrote:
			p.first()
			p.stored()
		case !bytes.Equal(r.Current, p.value):
			p.end(invalid(CodeConflict, "the state is stored with other parents or metadata"))
		case known && p.until.IsZero():
			p.stored()
		default:
			p.renew(r.Version)
		}
	})
}

// first records that the state was put first, unless another one was. Without this record
// find chooses one of several; so the result is not awaited.
func (p *putting) first() {
	put := func(was uint64, done func(store.PutResult)) {
		p.s.opts.Store.Put(spaceFirst, string(p.id[:]), was, p.owner, []byte(p.key), p.until, done)
	}
	put(0, func(r store.PutResult) {
		if r.Err == nil && !r.Wrote && key(r.Current) == p.key {
			put(r.Version, func(store.PutResult) {}) // for the retention of the state
		}
	})
}

// errChanged reports a record that was changed outside its turn.
var errChanged = errors.New("state: a stored state was written behind our back")

// renew gives a state that was put again the present retention: the stored one is unknown,
// since another process may have stored it with another Retention.
func (p *putting) renew(version uint64) {
	s := p.s
	s.opts.Store.Put(spaceStates, string(p.key), version, p.owner, p.value, p.until, func(r store.PutResult) {
		switch {
		case r.Err != nil:
			p.end(profiles.Unavailable(r.Err))
		case !r.Wrote:
			p.end(profiles.AsError(errChanged))
		default:
			p.first()
			p.stored()
		}
	})
}

func (p *putting) stored() {
	if p.until.IsZero() {
		p.s.seen.add(p.key, p.era)
	} else {
		p.s.seen.remove(p.key)
	}
	p.end(nil)
}
