// Package pipes is a listener for connections in memory.
package pipes

import (
	"context"
	"net"
	"sync"
	"time"
)

// Listener is a net.Listener of net.Pipe connections, which have no buffer. It is safe for
// concurrent use.
type Listener struct {
	conns chan net.Conn
	done  chan struct{}
	close func()
}

// Listen returns a Listener. The caller closes it.
func Listen() *Listener {
	l := &Listener{conns: make(chan net.Conn), done: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.done) })
	return l
}

// Dial has the form of DialContext of an http.Transport. It returns when the connection is
// accepted, with net.ErrClosed after Close, or with the error of ctx.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Give passes a connection to a call of Accept. If none takes it within the given time, or the
// listener is closed, Give closes it.
func (l *Listener) Give(conn net.Conn, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case l.conns <- conn:
		return
	case <-l.done:
	case <-timer.C:
	}
	_ = conn.Close()
}

// Closed reports whether Close was called.
func (l *Listener) Closed() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Connections stay open.
func (l *Listener) Close() error {
	l.close()
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
