package entrances

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/passing"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/store/pgstore"
	"github.com/slimwire/swp/transport"
)

// passPatience is how long a new connection waits for an active node: longer than it takes to
// replace one.
const passPatience = 2 * pgstore.Silence

// Pass begins to pass the connections of listeners, and of a listener for HTTP if it is not nil, to the
// active node. It does not wait, and does nothing if this node passes already.
func (c *Cluster) Pass(ls *Listeners, http net.Listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.passing != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.passing, c.stands = cancel, ctx
	for _, l := range ls.list {
		c.loops.Go(func() {
			for {
				conn, err := l.Listener.Accept(ctx)
				if err != nil {
					return
				}
				if !c.enter() {
					_ = conn.Close(uint64(profiles.RateLimitExceeded)) // as an endpoint does
					continue
				}
				c.loops.Go(func() {
					if c.left(c.passer.Conn(ctx, conn, l.config.ErrorFrames)) {
						c.taker.Keep(conn, l.config.ErrorFrames)
					}
				})
			}
		})
	}
	c.loops.Go(func() { c.asks(ctx) })
	if http == nil {
		return
	}
	// Accept ends with the passing, and the socket stays open.
	stop := func() { _ = http.(interface{ SetDeadline(time.Time) error }).SetDeadline(time.Unix(1, 0)) }
	context.AfterFunc(ctx, stop)
	c.loops.Go(func() {
		transport.AcceptTCP(until{http, ctx}, func(conn net.Conn) {
			if !c.enter() {
				_ = conn.Close()
				return
			}
			c.loops.Go(func() {
				if c.left(c.passer.Raw(ctx, conn)) {
					c.taker.KeepRaw(conn)
				}
			})
		})
	})
}

// replaced is how long the active node may take no connections before this node is not ready: longer than
// it takes to replace it.
const replaced = pgstore.Silence + 2*askPace

// askPace is the pause between two questions whether the active node takes connections.
const askPace = 2 * time.Second

// asks keeps reached current, until ctx ends.
func (c *Cluster) asks(ctx context.Context) {
	for {
		err := c.passer.Ask(ctx)
		c.mu.Lock()
		switch c.refused = err; {
		case err == nil:
			c.reached = time.Now()
		case errors.Is(err, passing.ErrRefused), errors.Is(err, passing.ErrNotTaken):
		case time.Since(c.reached) > c.grace:
			c.leave() // the link is cut: peers get no answers, and can try another node
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(askPace):
		}
	}
}

// until is a listener whose Accept fails with net.ErrClosed after the end of a context.
type until struct {
	net.Listener
	ctx context.Context
}

func (u until) Accept() (net.Conn, error) {
	conn, err := u.Listener.Accept()
	if err != nil && u.ctx.Err() != nil {
		return nil, net.ErrClosed
	}
	return conn, err
}

// enter counts a connection; false means that there are too many, or that memory is short.
func (c *Cluster) enter() bool {
	if c.open.Add(1) > int64(c.o.Latest().Limits.Connections) || c.o.Admit() != nil {
		c.open.Add(-1)
		c.passed.WithLabelValues("refused").Inc()
		return false
	}
	return true
}

// left counts the end of the passing of a connection, and reports whether the connection still waits.
func (c *Cluster) left(err error) (waits bool) {
	c.open.Add(-1)
	switch {
	case errors.Is(err, passing.ErrWaiting):
		return true
	case errors.Is(err, passing.ErrNotTaken):
		c.passed.WithLabelValues("refused").Inc()
		c.o.Log.Debug("connection not passed", zap.Error(err))
	default:
		c.passed.WithLabelValues("passed").Inc()
	}
	return false
}

// Leave begins the end of a node that passes connections, whose listeners are closed: it waits until each
// has ended after its last answer, and the programs that run for the active node have ended, or for the end of ctx.
func (c *Cluster) Leave(ctx context.Context) {
	c.leaving()
	if err := c.passer.Leave(ctx); err != nil {
		if c.open.Load() > 0 || c.host.Links() > 0 {
			c.o.Log.Warn("connections and programs of this node are not drained", zap.Error(err))
		}
		return
	}
	tick := time.NewTicker(leavePace)
	defer tick.Stop()
	for c.open.Load() > 0 || c.host.Links() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// leavePace is the pause between two looks at the connections that are left.
const leavePace = 20 * time.Millisecond

// Rise ends the passing: connections that are passed end. Those that wait for an active node are served
// by this one, and those that arrive wait in their listeners.
func (c *Cluster) Rise() {
	c.mu.Lock()
	cancel := c.passing
	c.mu.Unlock()
	if cancel != nil {
		cancel()
		c.loops.Wait()
	}
}

// leave ends the connections that are passed. The caller holds c.mu.
func (c *Cluster) leave() {
	c.over()
	c.era, c.over = context.WithCancel(context.Background())
}

// place returns the active node, if it is another one that takes connections.
func (c *Cluster) place() (passing.Place, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if m.Active && m.Name != c.node && m.Address != "" {
			return passing.Place{Name: m.Name, Address: m.Address, Certificate: m.Certificate, Until: c.era}, true
		}
	}
	return passing.Place{}, false
}

// Stands adds to the health of a node that is not active. It is ready while it can pass connections. A node
// that takes the place of another one needs some time, in which connections wait.
func (c *Cluster) Stands(active string, h *part.Health) {
	c.Look(h)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.taker == nil:
		h.Reasons = append(h.Reasons, fmt.Sprintf("node %s is active, and this one stands by", active))
	case time.Since(c.reached) > c.grace:
		h.Reasons = append(h.Reasons, fmt.Sprintf("node %s is active, and this one cannot pass connections to it: %v", active, c.refused))
	default:
		h.Warn(fmt.Sprintf("node %s is active; this one passes connections to it", active))
	}
}
