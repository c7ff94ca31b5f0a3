package client

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/slimwire/swp/internal/bridge/gate"
)

// local serves a remote peer to local programs that connect to ln, until ctx ends. It
// closes ln. Then streams end at once; calls in flight have two seconds, and after them
// end, which may be nil, has two seconds. The error comes from the listener.
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
