package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/slimwire/swp/bridge/gate"
)

// local serves what is remote to whoever can connect to ln, which it closes, until ctx
// ends. Streams then end at once, and calls in flight have two seconds, as has end, which
// comes after them and may be nil. The error is what kept the listener from being served.
func local(ctx context.Context, ln net.Listener, front interface {
	http.Handler
	Drain()
}, ready func(), end func(context.Context),
) error {
	g, err := gate.New(gate.Options{Anonymous: "local"})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	server := g.Server(front)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	if ready != nil {
		ready()
	}
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.Background(), lingerTime)
	defer cancel()
	front.Drain()
	if server.Shutdown(ending) != nil {
		_ = server.Close()
	}
	if end != nil {
		end(ending)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// lasting is the connection that all requests of a front share, and what was made of it.
// When it is lost it is made anew for the next request. It is safe for concurrent use.
type lasting[T any] struct {
	dial     Dialer
	patience time.Duration // for a sign of life
	open     func(ctx context.Context, c *Client) (T, error)

	mu   sync.Mutex
	c    *Client
	made T
	stop func()
}

func (l *lasting[T]) get(ctx context.Context) (T, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.c != nil && l.c.Context().Err() == nil {
		return l.made, nil
	}
	l.drop()
	c, err := l.dial(ctx)
	if err != nil {
		return l.made, err
	}
	made, err := l.open(ctx, c)
	if err != nil {
		c.Close()
		return l.made, c.Explain(err)
	}
	l.c, l.made, l.stop = c, made, c.keepAlive(l.patience)
	return made, nil
}

// drop gives the connection up. The caller holds mu.
func (l *lasting[T]) drop() {
	if l.c != nil {
		l.stop()
		l.c.Close()
		l.c = nil
	}
}

func (l *lasting[T]) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
}
