package mcpecho

import (
	"context"
	"errors"
	"sync"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/internal/bridge/mcpclient"
	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
)

// DialSWP calls the server of a name behind a swpd, ADDR/NAME, over mutual TLS with the client
// that is in swp-client mcp stdio and in package mcptransport. There is one Caller.
func DialSWP(ctx context.Context, addr string, files cert.Files) (echo.Conn, error) {
	address, target, err := client.SplitTarget("swp+tls://" + addr)
	if err != nil {
		return nil, err
	}
	peer := client.Keep(client.KeepOptions{Dial: client.To(address.String(), client.Options{
		Identity: client.Identity{Cert: files.Cert, Key: files.Key, CA: files.CA},
	})})
	if _, err := peer.Get(ctx); err != nil {
		peer.Close()
		return nil, err
	}
	c := &swpConn{peer: peer, answers: make(chan []byte, 1), refused: make(chan struct{})}
	c.talk = mcpclient.New(ctx, mcpclient.Options{Peer: peer, Target: target, Write: c.take, Complain: c.complain})
	return c, nil
}

type swpConn struct {
	peer    *client.Kept
	talk    *mcpclient.Conversation
	answers chan []byte

	once    sync.Once
	refused chan struct{} // closed with err set
	err     error

	id uint64
}

func (c *swpConn) take(octets []byte) { c.answers <- octets }

func (c *swpConn) complain(why string) {
	c.once.Do(func() {
		c.err = errors.New("mcpecho: " + why)
		close(c.refused)
	})
}

func (c *swpConn) Close() error {
	c.talk.Close()
	c.peer.Close()
	return nil
}

func (c *swpConn) Caller() echo.Caller { return c }

func (c *swpConn) Echo(payload []byte, use func([]byte) error) error {
	c.id++
	c.talk.Send(appendRequest(make([]byte, 0, 512+2*len(payload)), c.id, payload))
	select {
	case octets := <-c.answers:
		answer, err := readResponse(octets, c.id)
		if err != nil {
			return err
		}
		return use(answer)
	case <-c.refused:
		return c.err
	}
}
