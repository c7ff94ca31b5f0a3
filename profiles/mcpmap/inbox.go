package mcpmap

import "sync"

// inbox calls a callback for queued items in order, one at a time, without blocking the
// sender. Its goroutine lives while the queue is not empty.
type inbox struct {
	limit int // of the weights of its items

	mu      sync.Mutex
	due     []delivery
	weight  int // of due
	running bool
	idle    chan struct{} // closed when the goroutine ends; nil before the first
}

// delivery is one item, and its weight.
type delivery struct {
	weight int
	hand   func()
}

// maxDueOctets bounds the octets queued for the client of a session.
const maxDueOctets = 16 << 20

// perMessage is the part of the weight of a message that does not depend on its size.
const perMessage = 256

// weightOf is the weight of a message with so many octets.
func weightOf(octets int) int { return octets + perMessage }

// push queues f for a message with so many octets, unless the queue is full. A single item of
// any size is always accepted.
func (b *inbox) push(octets int, f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	weight := weightOf(octets)
	if len(b.due) > 0 && b.weight+weight > b.limit {
		return false
	}
	b.due = append(b.due, delivery{weight, f})
	b.weight += weight
	if !b.running {
		b.running = true
		b.idle = make(chan struct{})
		go b.run()
	}
	return true
}

func (b *inbox) run() {
	for {
		b.mu.Lock()
		if len(b.due) == 0 {
			b.running = false
			b.due = nil
			close(b.idle)
			b.mu.Unlock()
			return
		}
		next := b.due[0]
		b.due[0] = delivery{}
		b.due = b.due[1:]
		b.weight -= next.weight
		b.mu.Unlock()
		next.hand()
	}
}

// drained returns a channel that is closed when the present items have been delivered, or
// nil.
func (b *inbox) drained() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.running {
		return nil
	}
	return b.idle
}
