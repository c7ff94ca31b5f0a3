package a2a

import (
	"context"
	"crypto/sha256"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store"
)

// A Task that the access rules deny keeps its task_id, its digest and its Result, so that an
// equal Task gets the same answer. Nobody is charged for these records; their number is
// bounded instead: a peer, with all callers that it asserts, has maxDenied places, and a
// denied task takes that of an earlier one. A place is a record with the run of its task.
const (
	spaceDenied = "a2a.denied"
	maxDenied   = 1024
)

// deny reduces a request to what a denied task keeps.
func (r *request) deny(sum digest) {
	r.spec = spec{Owner: r.Owner, ID: r.ID, Kind: r.Kind}
	r.Denied = sum[:]
}

// place is the key of the place of a denied task.
func (p *spec) place() string {
	peer, own := sha256.Sum256([]byte(profiles.Link(p.Owner))), sha256.Sum256([]byte(p.key()))
	n := (int(own[0])<<8 | int(own[1])) % maxDenied
	return string(peer[:]) + string([]byte{byte(n >> 8), byte(n)})
}

// payer is the owner of the records of a task in the store.
func (t *task) payer() string {
	if t.denied {
		return ""
	}
	return t.Owner
}

// storeDenied stores the request of a denied task in the place of an earlier one.
func (a *arrival) storeDenied(t *task) {
	if err := t.takePlace(t.s.ctx); err != nil {
		t.drop()
		a.w.Fail(profiles.Unavailable(err))
		return
	}
	a.store(t)
}

// takePlace takes the place of a task whose request is not in the store. While the task is
// in the table, no other task takes the place.
func (t *task) takePlace(ctx context.Context) error {
	db := t.s.opts.Store
	if r, err := readRequest(ctx, db, t.key); err != nil || r != nil {
		return err
	}
	version, run, err := db.Get(ctx, spaceDenied, t.place())
	if err != nil {
		return err
	}
	if version > 0 {
		if err := t.s.forgetDenied(ctx, string(run)); err != nil {
			return err
		}
	}
	done := make(chan error, 1)
	db.Put(spaceDenied, t.place(), version, "", []byte(t.run), t.Expires, func(p store.PutResult) { done <- p.Err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errClosed
	}
}

// forgetDenied deletes the records of a denied task.
func (s *Service) forgetDenied(ctx context.Context, run string) error {
	key, ok := splitRun(run)
	if !ok {
		return nil // damaged: nothing can be found by it
	}
	version, value, err := s.opts.Store.Get(ctx, spaceRequest, key)
	if err != nil || version == 0 {
		return err
	}
	if r, err := decodeRequest(value); err != nil || r.Denied == nil || r.run() != run {
		return nil //nolint:nilerr // it is another request, or not to be removed unseen
	}
	s.opts.Store.Delete(spaceEnding, run, 0, func(bool, error) {})
	s.opts.Store.Delete(spaceRequest, key, version, func(bool, error) {})
	return nil
}

// deny answers a denied Task that is not kept.
func (a *arrival) deny() {
	m := ResultBody{TaskID: a.request.ID, ErrorMessage: []byte(reasonDenied)}
	env := resultOf(&m)
	if id := a.s.opts.Identity; id != "" {
		env.Extensions = e1.AppendExtension(nil, profiles.ExtEndpoint, []byte(id))
	}
	_ = a.w.Finish(env)
}
