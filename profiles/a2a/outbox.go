package a2a

import (
	"maps"
	"slices"
	"sync"
)

// address names a task of ours: who carries it out, and its task_id.
type address struct{ identity, id string }

// outbox holds the tasks of ours: those that are open, and the last of those that
// are over.
type outbox struct {
	mu     sync.Mutex
	closed bool
	open   map[address]*Delivery
	ended  endedTasks
}

// maxEnded is how many tasks of ours are remembered after they are over, so that
// what their executors still send is told from what they must not send. What is
// older is unknown.
const maxEnded = 8192

// endedTasks is a table of tasks of ours that are over. It forgets the oldest.
type endedTasks struct {
	list map[address]*digest // of the executor's Result; nil if it has sent none
	ring []address
	next int
}

func (e *endedTasks) add(at address, sum *digest) {
	if _, known := e.list[at]; !known {
		if len(e.ring) < maxEnded {
			e.ring = append(e.ring, at)
		} else {
			delete(e.list, e.ring[e.next])
			e.ring[e.next] = at
			e.next = (e.next + 1) % maxEnded
		}
	}
	e.list[at] = sum
}

// get returns the Delivery of a task that is open, else nil.
func (o *outbox) get(at address) *Delivery {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.open[at]
}

// add enters a Delivery and returns the one that it replaces, if any.
func (o *outbox) add(d *Delivery) (old *Delivery, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, errClosed
	}
	old = o.open[d.at]
	o.open[d.at] = d
	return old, nil
}

// remove takes out a Delivery. sum is that of the executor's Result, nil if there
// was none.
func (o *outbox) remove(d *Delivery, sum *digest) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[d.at] == d {
		delete(o.open, d.at)
		o.ended.add(d.at, sum)
	}
}

// late takes an Event, or with sum a Result, of an executor whose task is over.
// After its own Result there must be no Event and no other Result; what crosses
// ours is dropped. known is false if no such task is remembered.
func (o *outbox) late(at address, sum *digest) (known bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	first, known := o.ended.list[at]
	switch {
	case !known:
		return false, nil
	case sum == nil && first != nil:
		return true, errAfterResult
	case sum != nil && first == nil:
		o.ended.list[at] = sum
	case sum != nil && *first != *sum:
		return true, errSecond
	}
	return true, nil
}

// close refuses Deliveries from now on and returns those that are open.
func (o *outbox) close() []*Delivery {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	return slices.Collect(maps.Values(o.open))
}
