package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/slimwire/swp/bridge/gate"
	"github.com/slimwire/swp/bridge/mcpfront"
)

// HTTPOptions configure ServeHTTP. Connect and Listener are required.
type HTTPOptions struct {
	Connect  Dialer
	Target   string       // name of the server, or empty for the peer's default
	Listener net.Listener // on a loopback address: whoever can connect acts as this client

	// Patience is how long the peer may take for a sign of life. Default 10 s.
	Patience time.Duration

	// Ready is called once the peer was reached. Nil: nobody is told.
	Ready func()
}

// ServeHTTP is a local MCP server over Streamable HTTP, at /mcp, that is really the
// remote one: package mcpfront says how it behaves. A connection that is lost is made
// anew with the next request. It returns when ctx ends, after the calls in flight have
// had two seconds, with nil; or with what kept the peer from being reached at first,
// or the listener from being served.
func ServeHTTP(ctx context.Context, o HTTPOptions) error {
	defer func() { _ = o.Listener.Close() }()
	if o.Patience == 0 {
		o.Patience = 10 * time.Second
	}
	links := &httpLinks{opts: o}
	defer links.close()
	if _, err := links.connect(ctx, ""); err != nil {
		return err
	}
	g, err := gate.New(gate.Options{Anonymous: "local"})
	if err != nil {
		return err
	}
	front := mcpfront.New(mcpfront.Options{Connect: links.connect, Caller: gate.Caller, Single: true, Target: o.Target})
	server := g.Server(front)
	served := make(chan error, 1)
	go func() { served <- server.Serve(o.Listener) }()
	if o.Ready != nil {
		o.Ready()
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
	front.Close(ending)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// httpLinks is the connection that all requests share.
type httpLinks struct {
	opts HTTPOptions

	mu   sync.Mutex
	c    *Client
	link *mcpfront.Link
	stop func()
}

// connect implements mcpfront.Options.Connect.
func (l *httpLinks) connect(ctx context.Context, _ string) (*mcpfront.Link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.c != nil && l.c.Context().Err() == nil {
		return l.link, nil
	}
	l.drop()
	c, err := l.opts.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.CheckTarget(ctx, l.opts.Target); err != nil {
		c.Close()
		return nil, c.Explain(err)
	}
	l.c, l.link, l.stop = c, &mcpfront.Link{Session: c.Session, MCP: c.MCP()}, c.keepAlive(l.opts.Patience)
	return l.link, nil
}

// drop gives the connection up. The caller holds mu.
func (l *httpLinks) drop() {
	if l.c != nil {
		l.stop()
		l.c.Close()
		l.c = nil
	}
}

func (l *httpLinks) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
}
