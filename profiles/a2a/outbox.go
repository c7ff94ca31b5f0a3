package a2a

import (
	"maps"
	"slices"
	"sync"
)

// address identifies a task that this side sent: the identity of its executor, and its
// task_id.
type address struct{ identity, id string }

// outbox has the tasks that this side sent: the open ones, and the last ones that have
// ended.
type outbox struct {
	mu     sync.Mutex
	closed bool
	open   map[address]*Delivery
	ended  endedTasks
}

// maxEnded is how many ended tasks are remembered, to distinguish late messages from
// violations. Older tasks are unknown.
const maxEnded = 8192

// endedTasks is a table of ended tasks. It forgets the oldest.
type endedTasks struct {
	list map[address]endedTask
	ring []address
	next int
}

// endedTask is what the executor of an ended task has sent.
type endedTask struct {
	sum  *digest // of its Result; nil if there was none
	last uint64  // number of its last Event
}

func (e *endedTasks) add(at address, task endedTask) {
	if _, known := e.list[at]; !known {
		if len(e.ring) < maxEnded {
			e.ring = append(e.ring, at)
		} else {
			delete(e.list, e.ring[e.next])
			e.ring[e.next] = at
			e.next = (e.next + 1) % maxEnded
		}
	}
	e.list[at] = task
}

// get returns the Delivery of an open task, else nil.
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

// remove removes a Delivery.
func (o *outbox) remove(d *Delivery, ended endedTask) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[d.at] == d {
		delete(o.open, d.at)
		o.ended.add(d.at, ended)
	}
}

// late handles an Event, or with sum a Result, of an executor whose task has ended. After
// its own Result the executor must send no Event and no different Result, but may repeat
// those that it has sent; messages that crossed the Result of this side are dropped. known is
// false if the task is not remembered.
func (o *outbox) late(at address, sum *digest, place position) (known bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	first, known := o.ended.list[at]
	switch {
	case !known:
		return false, nil
	case sum == nil && first.sum != nil && !(&sequence{last: first.last}).taken(place):
		return true, errAfterResult
	case sum != nil && first.sum == nil:
		o.ended.list[at] = endedTask{sum, first.last}
	case sum != nil && *first.sum != *sum:
		return true, errSecond
	}
	return true, nil
}

// close refuses further Deliveries and returns the open ones.
func (o *outbox) close() []*Delivery {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	return slices.Collect(maps.Values(o.open))
}
