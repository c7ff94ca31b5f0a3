package sqlstore

import "github.com/slimwire/swp/internal/fair"

// turns put operations into transactions. While all that wait fit into one transaction they
// keep the order of submission. A longer backlog is served in turn: one operation of each
// owner, and after each of them one of the endpoint itself, such as an Ack. The operations of
// one owner keep their order. Operations on one record, on one item and on the end of one log
// keep it too.
type turns struct {
	owned fair.Queue[operation]
	own   fair.Queue[operation] // of owner ""
	next  operation             // did not fit into the last transaction
	last  map[subject]waiting   // only of those that wait
	ownUp bool                  // it is the turn of own

	batch []operation
}

// subject is what an operation changes: a record, a log or an item.
type subject struct {
	kind        byte
	space, name string
}

// waiting counts the operations on a subject that wait, and names the owner whose turn serves
// the last one.
type waiting struct {
	owner string
	n     int
}

// subjectOf returns the subject of an operation, and whether the operation must come after all
// that wait for the same one. Entries of a log must not: they differ by their ids.
func subjectOf(op operation) (s subject, after bool) {
	switch op := op.(type) {
	case *put:
		return subject{'r', string(op.space), string(op.key)}, true
	case *remove:
		return subject{'r', string(op.space), string(op.key)}, true
	case *add:
		return subject{'l', op.space, op.log}, false
	case *cut:
		return subject{'l', op.space, op.log}, true
	case *enqueue:
		return subject{'i', op.space, op.id}, true
	case *leaseEnd:
		return subject{'i', op.space, op.id}, true
	}
	return subject{}, false
}

// idle reports whether nothing waits.
func (t *turns) idle() bool { return t.owned.Len()+t.own.Len() == 0 && t.next == nil }

// take returns the operations of the next transaction, of those that wait and of ops, which
// were submitted after them. They are valid until the next call.
func (t *turns) take(ops []operation) []operation {
	if t.idle() && fitting(ops) == len(ops) {
		return ops
	}
	for _, op := range ops {
		t.push(op)
	}
	clear(t.batch)
	t.batch = t.batch[:0]
	for octets := 0; len(t.batch) < maxBatch; {
		if t.next == nil && !t.pop() {
			break
		}
		octets += t.next.size()
		if len(t.batch) > 0 && octets > maxBatchOctets {
			break
		}
		t.batch = append(t.batch, t.next)
		t.next = nil
	}
	return t.batch
}

// fitting returns how many operations fit into one transaction.
func fitting(ops []operation) (n int) {
	for octets := 0; n < len(ops) && n < maxBatch; n++ {
		if octets += ops[n].size(); n > 0 && octets > maxBatchOctets {
			break
		}
	}
	return n
}

func (t *turns) push(op operation) {
	owner := ownerOf(op)
	if s, after := subjectOf(op); s.kind != 0 {
		if t.last == nil {
			t.last = make(map[subject]waiting)
		}
		w := t.last[s]
		if w.n > 0 && after {
			owner = w.owner
		}
		t.last[s] = waiting{owner, w.n + 1}
	}
	if owner == "" {
		t.own.Push("", op)
	} else {
		t.owned.Push(owner, op)
	}
}

// pop makes the first operation in turn the next one.
func (t *turns) pop() (ok bool) {
	first, second := &t.owned, &t.own
	if t.ownUp {
		first, second = second, first
	}
	t.ownUp = !t.ownUp
	if t.next, ok = first.Pop(nil); !ok {
		if t.next, ok = second.Pop(nil); !ok {
			return false
		}
	}
	if s, _ := subjectOf(t.next); s.kind != 0 {
		if w := t.last[s]; w.n > 1 {
			t.last[s] = waiting{w.owner, w.n - 1}
		} else {
			delete(t.last, s)
		}
	}
	return true
}
