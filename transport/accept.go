package transport

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/backoff"
)

// Queue hands finished connections to a listener's Accept. It is for
// implementations of Listener.
type Queue struct {
	conns chan Conn
	done  chan struct{}
	once  sync.Once
}

// NewQueue returns an open Queue.
func NewQueue() *Queue {
	return &Queue{conns: make(chan Conn), done: make(chan struct{})}
}

// Put passes c to a call of Accept. If none takes it within the given time, or the queue is
// closed, Put closes c.
func (q *Queue) Put(c Conn, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case q.conns <- c:
		return
	case <-q.done:
	case <-timer.C:
	}
	_ = c.Close(0)
}

// Accept implements Listener.
func (q *Queue) Accept(ctx context.Context) (Conn, error) {
	select {
	case <-q.done:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close makes each Accept fail with net.ErrClosed and each Put close its connection.
func (q *Queue) Close() { q.once.Do(func() { close(q.done) }) }

// Done is closed by Close.
func (q *Queue) Done() <-chan struct{} { return q.done }

// AcceptTCP passes each connection that ln accepts to handle, until ln is closed. After any
// other error (no file descriptors left, a peer that has disconnected) it waits up to a
// second and continues.
func AcceptTCP(ln net.Listener, handle func(net.Conn)) {
	pauses := backoff.Exponential{First: 5 * time.Millisecond, Longest: time.Second}
	for failures := 0; ; {
		conn, err := ln.Accept()
		switch {
		case err == nil:
			failures = 0
			handle(conn)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			time.Sleep(pauses.After(failures))
			failures++
		}
	}
}
