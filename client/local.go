package client

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/slimwire/swp/internal/bridge/gate"
)

// local serves a remote peer to any program that can connect to ln, until ctx ends. It
// closes ln. Streams then end at once, and calls in flight have two seconds, as has end,
// which comes after them and may be nil. The error is what kept the listener from being
// served.
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
