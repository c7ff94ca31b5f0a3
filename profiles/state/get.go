package state

import (
	"context"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// get serves a STATE_GET. It sees every earlier PUT on the same stream.
func (s *Service) get(req *profiles.Request) error {
	var m Get
	if err := m.Decode(req.Payload); err != nil {
		return err
	}
	id, ok := idOf(m.StateID)
	if !ok {
		return errNotFound
	}
	req.About("get", nameOf(id))
	before := s.turns.pending(keyOf(req.Identity(), id))
	return req.Detach(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
		payload, err := s.payload(ctx, req.Identity(), id, before)
		if err != nil {
			return err
		}
		return w.Finish(e1.Envelope{MsgType: TypePut, Payload: payload})
	})
}

// payload returns the PUT of the state that an identity sees.
func (s *Service) payload(ctx context.Context, identity string, id ID, before []*turn) ([]byte, error) {
	if err := await(ctx, before); err != nil {
		return nil, err
	}
	for _, source := range s.opts.Sources {
		if blob, ok := source.BlobFor(identity, id[:]); ok {
			m := Put{StateID: id[:], Blob: blob}
			return m.Append(make([]byte, 0, m.Size())), nil
		}
	}
	if s.opts.Store == nil {
		return nil, errNotFound
	}
	f, err := s.find(ctx, identity, id, "get", true)
	switch {
	case err != nil:
		return nil, profiles.Unavailable(err)
	case f.denied:
		return nil, errHidden
	case f.key == "":
		return nil, errNotFound
	}
	return f.value, nil
}
