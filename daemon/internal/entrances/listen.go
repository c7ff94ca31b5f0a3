package entrances

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
)

// ListenError adds advice to the error for an address.
func ListenError(key, address string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: %s: the port is taken, perhaps by another swpd; stop that program or choose another port (0 lets the system choose)", key, address)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s: %s: not permitted; ports below 1024 need a privilege, choose another", key, address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s: %s: this machine has no such address", key, address)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return fmt.Errorf("%s: %s: %w", key, address, err)
}

// Cap returns a listener that closes new connections at once while most are open.
func Cap(l net.Listener, most int) net.Listener {
	return &capped{Listener: l, slots: make(chan struct{}, most)}
}

type capped struct {
	net.Listener
	slots chan struct{}
}

func (c *capped) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case c.slots <- struct{}{}:
			return &cappedConn{Conn: conn, slots: c.slots}, nil
		default:
			_ = conn.Close()
		}
	}
}

type cappedConn struct {
	net.Conn
	slots chan struct{}
	freed sync.Once
}

func (c *cappedConn) Close() error {
	c.freed.Do(func() { <-c.slots })
	return c.Conn.Close()
}
