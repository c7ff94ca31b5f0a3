package filestore

import (
	"context"
	"fmt"

	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/lines"
)

// operation is a submitted write.
type operation struct {
	do   func(it *item, buf []byte) (bool, error) // nil for an Append
	grow growth                                   // the Append
}

type pending = lines.Operation[operation]

// growth holds the arguments of an Append.
type growth struct {
	at, mark uint64
	data     []byte
}

// maxBatch limits the octets that are written before one sync; a single larger operation is
// a separate batch.
const maxBatch = 16 << 20

// submit never waits. owner is the owner of the part or blob, or "" if it is unknown.
func (s *Store) submit(name, owner string, size int, op operation, done func(ok bool, err error)) {
	s.lines.Submit(name, &pending{Owner: owner, Octets: size, Joins: op.do == nil, Args: op, Done: done})
}

// perform performs several Appends, or one other operation.
func (s *Store) perform(name string, ops []*pending) {
	owner := ops[0].Owner
	_ = s.writing.Take(context.Background(), owner) // never fails without an end of the context
	defer s.writing.Give(owner)
	buf := borrow(s.writers)
	defer func() { s.writers <- buf }()
	s.mu.Lock()
	it := s.item(name)
	s.mu.Unlock()
	err := s.rewriteRecords(it)
	switch {
	case err != nil:
	case ops[0].Args.do == nil:
		s.grow(it, ops, buf)
		return
	default:
		ops[0].OK, ops[0].Err = ops[0].Args.do(it, buf)
		return
	}
	for _, op := range ops {
		op.Err = err
	}
}

// The records of an item.
const (
	partRecord = 0
	blobRecord = 1
)

func (s *Store) space(which int) string {
	if which == partRecord {
		return s.options.partSpace()
	}
	return s.options.Space
}

// commit writes a record, or deletes it if r is nil, and waits. If the stored record has an
// unexpected version, because an earlier write succeeded without an acknowledgement, commit
// takes over that version and replaces the record.
func (s *Store) commit(it *item, which int, r *record) error {
	known := it.stored[which]
	err := s.put(it, which, r)()
	if err != nil && it.stored[which] != known {
		err = s.put(it, which, r)()
	}
	return err
}

// put starts to write a record, or to delete it if r is nil; the returned function waits
// for the result. A failed write may turn out to have succeeded after a crash, so the item
// is marked unsure.
func (s *Store) put(it *item, which int, r *record) (wait func() error) {
	told := make(chan store.PutResult, 1)
	if r == nil {
		s.options.Records.Delete(s.space(which), it.name, 0, func(removed bool, err error) {
			told <- store.PutResult{Wrote: removed, Err: err}
		})
	} else {
		s.options.Records.Put(s.space(which), it.name, it.stored[which], "", r.encode(), noExpiry,
			func(result store.PutResult) { told <- result })
	}
	return func() error {
		result := <-told
		err := result.Err
		if err == nil {
			it.stored[which] = result.Version
			if !result.Wrote {
				err = fmt.Errorf("%w: %s: the record of %q is another", store.ErrUnavailable, s.dir, it.name)
			}
		}
		it.unsure = it.unsure || err != nil
		return err
	}
}

// rewriteRecords writes the last acknowledged records of an unsure item again, before any
// operation that depends on them.
func (s *Store) rewriteRecords(it *item) error {
	if !it.unsure {
		return nil
	}
	for which, r := range []*record{it.part, it.blob} {
		if err := s.commit(it, which, r); err != nil {
			return err
		}
	}
	it.unsure = false
	return nil
}

// publish replaces the records of an item.
func (s *Store) publish(it *item, part, blob *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it.part, it.blob = part, blob
	if part != nil {
		s.mark(part.expires)
	}
}
