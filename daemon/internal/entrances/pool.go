package entrances

import (
	"context"
	"net"

	"github.com/slimwire/swp/internal/strangers"
)

// Pool is a listener for HTTP that holds a bounded number of connections. A connection
// counts as a stranger's until a request on it is admitted (Admit).
type Pool struct {
	net.Listener
	places *strangers.Places
}

// NewPool returns a Pool of at most most connections.
func NewPool(l net.Listener, most int) *Pool {
	return &Pool{Listener: l, places: strangers.New(most)}
}

// pooled is a connection of a Pool.
type pooled struct {
	net.Conn
	place *strangers.Place
}

// Accept implements net.Listener.
func (p *Pool) Accept() (net.Conn, error) {
	for {
		conn, err := p.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if place := p.places.Enter(conn.RemoteAddr(), func() { _ = conn.Close() }); place != nil {
			return &pooled{conn, place}, nil
		}
		_ = conn.Close()
	}
}

func (c *pooled) Close() error {
	c.place.Leave()
	return c.Conn.Close()
}

type pooledKey struct{}

// Context is a ConnContext of http.Server, so that Admit finds the connection of a request.
func Context(ctx context.Context, conn net.Conn) context.Context {
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secured.NetConn()
	}
	if c, ok := conn.(*pooled); ok {
		return context.WithValue(ctx, pooledKey{}, c.place)
	}
	return ctx
}

// Admit says that the connection of a request is not one of a stranger, until the result is
// called.
func Admit(ctx context.Context) (release func()) {
	place, ok := ctx.Value(pooledKey{}).(*strangers.Place)
	if !ok {
		return func() {}
	}
	return place.Know()
}
