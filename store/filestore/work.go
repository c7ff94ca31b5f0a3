package filestore

import (
	"fmt"

	"github.com/slimwire/swp/store"
)

// operation is a write that was submitted.
type operation struct {
	size int                                      // octets it holds while it waits
	do   func(it *item, buf []byte) (bool, error) // nil: an Append
	grow growth                                   // the octets of an Append
	done func(ok bool, err error)
	ok   bool
	err  error
}

// growth is what an Append asks for.
type growth struct {
	at, mark uint64
	data     []byte
}

// maxBatch is how many octets are written before they are synced, unless a
// single operation has more. The next ones arrive meanwhile.
const maxBatch = 16 << 20

// submit never waits. A separate goroutine refuses what cannot be accepted.
func (s *Store) submit(name string, op *operation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var refuse *store.Error
	switch {
	case s.closed:
		refuse = store.ErrClosed
	case s.waiting >= s.options.QueueLength, s.waiting > 0 && s.octets+op.size > s.options.QueueOctets:
		refuse = store.ErrBusy
	}
	if refuse != nil {
		go op.done(false, refuse)
		return
	}
	s.waiting++
	s.octets += op.size
	it := s.item(name)
	it.waiting = append(it.waiting, op)
	if !it.working {
		it.working = true
		s.work.Go(func() { s.workOn(it) })
	}
}

// workOn does what was submitted for one name until there is nothing left.
func (s *Store) workOn(it *item) {
	for {
		s.mu.Lock()
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
			s.waiting -= n
			for _, op := range ops[:n] {
				s.octets -= op.size
			}
			s.mu.Unlock()
			for _, op := range ops[:n] {
				op.done(op.ok, op.err)
			}
			ops = ops[n:]
		}
	}
}

// perform does several Appends, or one other operation.
func (s *Store) perform(it *item, ops []*operation) {
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

// Which record of an item.
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

// commit waits until a record is written, or without one deleted. If the record
// there is another than was known, one that was written without saying so, it is
// known then and replaced.
func (s *Store) commit(it *item, which int, r *record) error {
	known := it.stored[which]
	err := s.put(it, which, r)()
	if err != nil && it.stored[which] != known {
		err = s.put(it, which, r)()
	}
	return err
}

// put starts to write a record or, without one, to delete it; the function it
// returns waits for that. What failed may turn out to be done after a crash: the
// item is unsure then.
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

// rewriteRecords rewrites the records of an item as last acknowledged, before any
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

// publish replaces what is known of an item.
func (s *Store) publish(it *item, part, blob *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it.part, it.blob = part, blob
	if part != nil {
		s.mark(part.expires)
	}
}
