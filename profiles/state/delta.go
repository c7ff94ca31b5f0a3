package state

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// delta serves a STATE_DELTA.
func (s *Service) delta(req *profiles.Request) error {
	var m Delta
	if err := m.Decode(req.Payload); err != nil {
		return err
	}
	// The changed state may itself be a parent of a delta.
	if err := checkParents(m.ParentIDs, nil); err != nil {
		return err
	}
	if s.opts.Store == nil {
		return errNotKept
	}
	id, ok := idOf(m.StateID)
	if !ok {
		return errNotFound
	}
	req.About("delta", nameOf(id))
	d := &adding{change: s.change(req.Identity(), id, m.ParentIDs), data: m.Append(make([]byte, 0, m.Size()))}
	d.begin(req.Lane, req.Defer(), d.check, d.store)
	return nil
}

// adding is a DELTA being added.
type adding struct {
	change
	data []byte // its payload
	base key    // of the state that it changes
}

func (d *adding) check(ctx context.Context) error {
	f, err := d.s.find(ctx, d.owner, d.id, "delta", false)
	switch {
	case err != nil:
		return err
	case f.denied:
		return errHidden
	case f.key == "":
		return errNotFound
	}
	d.base = f.key
	return d.haveParents(ctx)
}

func (d *adding) store() {
	// A repeated DELTA has the same id and is stored once.
	h := sha256.New()
	h.Write([]byte(d.key))
	h.Write(d.data)
	d.s.opts.Store.Append(spaceDeltas, string(d.base), string(h.Sum(nil)), d.owner, d.data, d.s.until(), func(r store.AppendResult) {
		if r.Err != nil {
			d.end(profiles.Unavailable(r.Err))
			return
		}
		d.end(nil)
	})
}

// Deltas serves MethodDeltas for a peer: it calls yield with the payloads of the deltas of
// a state, in order; yield may keep them. If yield returns an error, Deltas returns it.
// Otherwise the error is an *profiles.Error if there is no such state, or the store cannot
// be read.
func (s *Service) Deltas(ctx context.Context, peer *profiles.Peer, stateID []byte, yield func(payload []byte) error) error {
	id, ok := idOf(stateID)
	if !ok || s.opts.Store == nil {
		return errNotFound
	}
	if err := await(ctx, s.turns.pending(keyOf(peer.Identity, id))); err != nil {
		return err
	}
	f, err := s.find(ctx, peer.Identity, id, "get", false)
	switch {
	case err != nil:
		return profiles.Unavailable(err)
	case f.denied:
		return errHidden
	case f.key == "":
		return errNotFound
	}
	var stop error
	err = s.opts.Store.Read(ctx, spaceDeltas, string(f.key), 0, func(_ uint64, _ string, data []byte) bool {
		stop = yield(data)
		return stop == nil
	})
	if err != nil {
		return profiles.Unavailable(err)
	}
	return stop
}

// deltas implements swp.state.deltas.
func (s *Service) deltas(ctx context.Context, req *profiles.Request, params []byte, send func(item []byte) error) ([]byte, error) {
	err := s.Deltas(ctx, req.Peer(), params, send)
	if fault := (*profiles.Error)(nil); errors.As(err, &fault) && fault.Domain {
		return nil, &profiles.MethodError{Code: "not_found", Message: fault.Text}
	}
	return nil, err
}
