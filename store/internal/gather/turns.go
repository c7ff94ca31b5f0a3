package gather

import "github.com/slimwire/swp/internal/fair"

// Turns put operations into transactions. While all that wait fit into one transaction they
// keep the order of submission. A longer backlog is served in turn: one operation of each
// owner, and after each of them one of the endpoint itself, such as an Ack. The operations of
// one owner keep their order. Operations on one record, on one item and on the end of one log
// keep it too.
type Turns[O Operation] struct {
	Most       int // operations of a transaction
	MostOctets int // of values and names; a larger operation has a transaction of its own

	owned fair.Queue[O]
	own   fair.Queue[O]       // of owner ""
	next  []O                 // at most one, that did not fit into the last transaction
	last  map[Subject]waiting // only of those that wait
	ownUp bool                // it is the turn of own

	batch []O
}

// waiting counts the operations on a subject that wait, and names the owner whose turn serves
// the last one.
type waiting struct {
	owner string
	n     int
}

// Idle reports whether nothing waits.
func (t *Turns[O]) Idle() bool { return t.owned.Len()+t.own.Len()+len(t.next) == 0 }

// Take returns the operations of the next transaction, of those that wait and of ops, which
// were submitted after them. They are valid until the next call.
func (t *Turns[O]) Take(ops []O) []O {
	if t.Idle() && t.fitting(ops) == len(ops) {
		return ops
	}
	for _, op := range ops {
		t.push(op)
	}
	clear(t.batch)
	t.batch = t.batch[:0]
	for octets := 0; len(t.batch) < t.Most; {
		if len(t.next) == 0 && !t.pop() {
			break
		}
		op := t.next[0]
		octets += op.Size()
		if len(t.batch) > 0 && octets > t.MostOctets {
			break
		}
		t.batch = append(t.batch, op)
		clear(t.next)
		t.next = t.next[:0]
	}
	return t.batch
}

// rest takes all operations that wait.
func (t *Turns[O]) rest() (ops []O) {
	for len(t.next) > 0 || t.pop() {
		ops = append(ops, t.next[0])
		clear(t.next)
		t.next = t.next[:0]
	}
	return ops
}

// fitting returns how many operations fit into one transaction.
func (t *Turns[O]) fitting(ops []O) (n int) {
	for octets := 0; n < len(ops) && n < t.Most; n++ {
		if octets += ops[n].Size(); n > 0 && octets > t.MostOctets {
			break
		}
	}
	return n
}

func (t *Turns[O]) push(op O) {
	owner := op.Owner()
	if s, after := op.Subject(); s.Kind != 0 {
		if t.last == nil {
			t.last = make(map[Subject]waiting)
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
func (t *Turns[O]) pop() bool {
	first, second := &t.owned, &t.own
	if t.ownUp {
		first, second = second, first
	}
	t.ownUp = !t.ownUp
	op, ok := first.Pop(nil)
	if !ok {
		if op, ok = second.Pop(nil); !ok {
			return false
		}
	}
	t.next = append(t.next, op)
	if s, _ := op.Subject(); s.Kind != 0 {
		if w := t.last[s]; w.n > 1 {
			t.last[s] = waiting{w.owner, w.n - 1}
		} else {
			delete(t.last, s)
		}
	}
	return true
}
