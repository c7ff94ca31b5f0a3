package mcpmap

import "sync"

// inbox calls a callback for queued items in order, one at a time, without blocking the
// sender. Its goroutine lives while the queue is not empty.
type inbox struct {
	limit int

	mu      sync.Mutex
	due     []delivery
	octets  int
	running bool
	idle    chan struct{} // closed when the goroutine ends; nil before the first
}

// delivery is one item, and the number of its octets.
type delivery struct {
	octets int
	hand   func()
}

// maxDueOctets bounds the octets queued for one reader: a call or a session, in
// either direction.
const maxDueOctets = 16 << 20

// push queues f, which holds so many octets, unless the queue is full. A single item of any
// size is always accepted.
func (b *inbox) push(octets int, f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.due) >= b.limit || len(b.due) > 0 && b.octets+octets > maxDueOctets {
		return false
	}
	b.due = append(b.due, delivery{octets, f})
	b.octets += octets
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
		b.octets -= next.octets
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
