package state

import (
	"context"
	"errors"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// Forgotten is the result of MethodForget: the deleted data.
type Forgotten struct {
	State bool `json:"state"`
}

// Forget serves MethodForget for a peer: it deletes the peer's state with an id, and its
// deltas. States of other identities stay. done is called when that is done or has failed,
// by any goroutine; deleting an absent state succeeds. After a failure the peer repeats the
// request. Forget is called in order of arrival and does not wait.
func (s *Service) Forget(peer *profiles.Peer, stateID []byte, done func(Forgotten, error)) {
	id, ok := idOf(stateID)
	if !ok || s.opts.Store == nil {
		done(Forgotten{}, nil)
		return
	}
	f := &forgetting{change: s.change(peer.Identity, id, nil)}
	f.begin(nil, func(err error) { done(f.was, err) }, f.check, f.remove)
}

// forgetting is the deletion of a state.
type forgetting struct {
	change
	first uint64 // version of the record that it was put first, or 0
	was   Forgotten
}

func (f *forgetting) check(ctx context.Context) error {
	version, first, err := f.s.opts.Store.Get(ctx, spaceFirst, string(f.id[:]))
	if err != nil {
		return err
	}
	if key(first) == f.key {
		f.first = version
	}
	version, _, err = f.s.opts.Store.Get(ctx, spaceStates, string(f.key))
	f.was.State = version > 0 || errors.Is(err, store.ErrDamaged)
	if f.was.State {
		return nil // a damaged record can be deleted
	}
	return err
}

// remove deletes the state last, so that a repeated request after a failure finds the rest.
func (f *forgetting) remove() {
	st := f.s.opts.Store
	st.Drop(spaceDeltas, string(f.key), func(err error) {
		if err != nil {
			f.end(profiles.Unavailable(err))
			return
		}
		if f.first > 0 {
			st.Delete(spaceFirst, string(f.id[:]), f.first, func(bool, error) {}) // find works without this record
		}
		st.Delete(spaceStates, string(f.key), 0, func(_ bool, err error) {
			if err != nil {
				f.end(profiles.Unavailable(err))
				return
			}
			f.s.seen.remove(f.key)
			f.end(nil)
		})
	})
}

// forget implements swp.state.forget.
func (s *Service) forget(p profiles.Pending, params []byte) error {
	s.Forget(p.Peer(), params, func(was Forgotten, err error) { profiles.DoneJSON(p, was, err) })
	return nil
}
