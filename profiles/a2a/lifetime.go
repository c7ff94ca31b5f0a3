package a2a

import (
	"context"
	"errors"
	"sync"
	"time"
)

// lifetime ends the goroutines of a Service, and has the lock of its state.
type lifetime struct {
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // goroutines that Close waits for
	after  func(d time.Duration, f func()) (stop func() bool)

	mu     sync.Mutex // never held while the store or a session is called
	closed bool
}

// errClosed is the reason for everything that Close ends.
var errClosed = errors.New("a2a: the service was closed")

// spawn runs f on a goroutine that Close waits for. It returns false once the
// Service is closed.
func (l *lifetime) spawn(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.work.Go(f)
	return true
}

// later runs f after d, unless stop is called or the Service is closed before.
func (l *lifetime) later(d time.Duration, f func()) (stop func() bool) {
	return l.after(d, func() { l.spawn(f) })
}
