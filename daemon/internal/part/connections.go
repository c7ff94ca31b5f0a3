package part

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/slimwire/swp/transport"
)

// Connections records open connections, so that they can be checked again after a change of
// trust anchors or rules. The zero value is ready.
type Connections struct {
	mu   sync.Mutex
	open map[transport.Conn]struct{}
}

// add records a connection until it ends.
func (c *Connections) add(conn transport.Conn) {
	c.mu.Lock()
	if c.open == nil {
		c.open = make(map[transport.Conn]struct{})
	}
	c.open[conn] = struct{}{}
	c.mu.Unlock()
	context.AfterFunc(conn.Context(), func() {
		c.mu.Lock()
		delete(c.open, conn)
		c.mu.Unlock()
	})
}

// Admit records a connection and then asks refuse, which closes it if its peer is not
// admitted and returns the reason. In this order no change of trust or rules is missed: what
// comes after the question finds the connection.
func (c *Connections) Admit(conn transport.Conn, refuse func(transport.Conn) error) error {
	c.add(conn)
	return refuse(conn)
}

// List returns the connections that are open.
func (c *Connections) List() []transport.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.Collect(maps.Keys(c.open))
	return list
}
