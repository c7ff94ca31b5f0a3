package filestore

import (
	"context"
	"fmt"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/store"
)

// operation is a submitted write.
type operation struct {
	owner string                                   // of the part or blob
	size  int                                      // octets in memory while it waits
	do    func(it *item, buf []byte) (bool, error) // nil for an Append
	grow  growth                                   // the Append
	done  func(ok bool, err error)
	ok    bool
	err   error
}

// growth holds the arguments of an Append.
type growth struct {
	at, mark uint64
	data     []byte
}

// maxBatch limits the octets that are written before one sync; a single larger operation is
// a separate batch.
const maxBatch = 16 << 20

// submit never waits. A separate goroutine reports refusals.
func (s *Store) submit(name string, op *operation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.item(name)
	if op.owner == "" {
		op.owner = it.owner()
	}
	var refuse *store.Error
	switch {
	case s.closed:
		refuse = store.ErrClosed
	case s.waiting.Used() > 0:
		refuse = s.busy(op)
	}
	if refuse != nil {
		if !it.working && it.empty() {
			delete(s.items, name)
		}
		go op.done(false, refuse)
		return
	}
	s.waiting.Force(op.owner, 1)
	s.octets.Force(op.owner, op.size)
	it.waiting = append(it.waiting, op)
	if !it.working {
		it.working = true
		s.work.Go(func() { s.workOn(it) })
	}
}

// busy returns why an operation cannot wait; nil if it can. The caller holds mu.
func (s *Store) busy(op *operation) *store.Error {
	switch max(s.waiting.Ask(op.owner, 1), s.octets.Ask(op.owner, op.size)) {
	case fair.Taken:
		return nil
	case fair.Full:
		return store.ErrShare
	}
	return store.ErrBusy
}

// workOn performs the operations of one name until none is left.
func (s *Store) workOn(it *item) {
	for {
		s.mu.Lock()
		it.telling = false
		if it.sweeping {
			s.mu.Unlock()
			return // the sweeper begins a goroutine anew
		}
		ops := it.waiting
		it.waiting = nil
		if len(ops) == 0 {
			it.working = false
			if it.empty() {
				delete(s.items, it.name)
			}
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		for len(ops) > 0 {
			n, octets := 1, ops[0].size
			if ops[0].do == nil {
				for n < len(ops) && ops[n].do == nil && octets+ops[n].size <= maxBatch {
					octets += ops[n].size
					n++
				}
			}
			s.perform(it, ops[:n])
			s.mu.Lock()
			for _, op := range ops[:n] {
				s.waiting.Give(op.owner, 1)
				s.octets.Give(op.owner, op.size)
			}
			it.telling = len(ops) == n
			s.mu.Unlock()
			for _, op := range ops[:n] {
				op.done(op.ok, op.err)
			}
			ops = ops[n:]
		}
	}
}

// perform performs several Appends, or one other operation.
func (s *Store) perform(it *item, ops []*operation) {
	owner := ops[0].owner
	_ = s.writing.Take(context.Background(), owner) // never fails without an end of the context
	defer s.writing.Give(owner)
	buf := borrow(s.writers)
	defer func() { s.writers <- buf }()
	err := s.rewriteRecords(it)
	switch {
	case err != nil:
	case ops[0].do == nil:
		s.grow(it, ops, buf)
		return
	default:
		ops[0].ok, ops[0].err = ops[0].do(it, buf)
		return
	}
	for _, op := range ops {
		op.err = err
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
