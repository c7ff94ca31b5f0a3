package mcpmap

import "sync"

// inbox hands things to a callback in order, one at a time, without making
// their sender wait. Its goroutine lives while there is something to hand over.
type inbox struct {
	limit int

	mu      sync.Mutex
	due     []func()
	running bool
	idle    chan struct{} // closed when the goroutine ends; nil before the first
}

// push queues f, unless limit are waiting already.
func (b *inbox) push(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.due) >= b.limit {
		return false
	}
	b.due = append(b.due, f)
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
		f := b.due[0]
		b.due = b.due[1:]
		b.mu.Unlock()
		f()
	}
}

// drained returns a channel that is closed once what is queued now has been
// handed over, or nil if nothing is.
func (b *inbox) drained() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.running {
		return nil
	}
	return b.idle
}
