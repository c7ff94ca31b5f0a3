package state

import (
	"context"
	"crypto/sha256"
	"encoding/json"
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

// Lost are the deltas of a state that are no longer stored, because the repair of a damaged store has left them out
// or their retention has passed. It is the result of MethodDeltas as JSON; without lost deltas the result is empty.
type Lost struct {
	Deltas uint64 `json:"lost"`
	Gaps   []Gap  `json:"gaps"` // the first maxGaps
}

// Gap is a place among the deltas of an answer where others are lost.
type Gap struct {
	After uint64 `json:"after"` // deltas of the answer before it
	Lost  uint64 `json:"lost"`
}

// maxGaps bounds Lost.Gaps.
const maxGaps = 100

// ReadLost reads the result of MethodDeltas.
func ReadLost(result []byte) (*Lost, error) {
	l := new(Lost)
	if len(result) == 0 {
		return l, nil
	}
	if err := json.Unmarshal(result, l); err != nil {
		return nil, invalid("", "the result of %s is no JSON object", MethodDeltas)
	}
	return l, nil
}

func (l *Lost) add(after, n uint64) {
	if n == 0 {
		return
	}
	l.Deltas += n
	if len(l.Gaps) < maxGaps {
		l.Gaps = append(l.Gaps, Gap{after, n})
	}
}

// Deltas serves MethodDeltas for a peer: it calls yield with the payloads of the deltas of
// a state, in order; yield may keep them. If yield returns an error, Deltas returns it.
// Otherwise the error is an *profiles.Error if there is no such state, or the store cannot
// be read.
func (s *Service) Deltas(ctx context.Context, peer *profiles.Peer, stateID []byte, yield func(payload []byte) error) (*Lost, error) {
	id, ok := idOf(stateID)
	if !ok || s.opts.Store == nil {
		return nil, errNotFound
	}
	if err := await(ctx, s.turns.pending(keyOf(peer.Identity, id))); err != nil {
		return nil, err
	}
	f, err := s.find(ctx, peer.Identity, id, "get", false)
	switch {
	case err != nil:
		return nil, profiles.Unavailable(err)
	case f.denied:
		return nil, errHidden
	case f.key == "":
		return nil, errNotFound
	}
	_, last, err := s.opts.Store.Span(ctx, spaceDeltas, string(f.key))
	if err != nil {
		return nil, profiles.Unavailable(err)
	}
	var stop error
	var sent, at uint64
	lost := new(Lost)
	err = s.opts.Store.Read(ctx, spaceDeltas, string(f.key), 0, func(seq uint64, _ string, data []byte) bool {
		lost.add(sent, seq-at-1)
		at = seq
		sent++
		stop = yield(data)
		return stop == nil
	})
	switch {
	case err != nil:
		return nil, profiles.Unavailable(err)
	case stop != nil:
		return nil, stop
	}
	lost.add(sent, max(last, at)-at)
	return lost, nil
}

// deltas implements swp.state.deltas.
func (s *Service) deltas(ctx context.Context, req *profiles.Request, params []byte, send func(item []byte) error) ([]byte, error) {
	lost, err := s.Deltas(ctx, req.Peer(), params, send)
	if fault := (*profiles.Error)(nil); errors.As(err, &fault) && fault.Domain {
		return nil, &profiles.MethodError{Code: "not_found", Message: fault.Text}
	}
	if err != nil || lost.Deltas == 0 {
		return nil, err
	}
	return json.Marshal(lost)
}
