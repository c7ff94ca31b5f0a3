package client

import (
	"context"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// aliveEvery is how often the peer is asked whether it is there while nothing
// but waiting is done. Silence proves nothing: a peer that crashed and is back
// has forgotten the connection, and over QUIC says so only when it is asked.
const aliveEvery = 5 * time.Second

// keepAlive asks the peer for signs of life, until it is stopped, and ends the
// session when there has been none for patience.
func (c *Client) keepAlive(patience time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(c.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(aliveEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			answered, end := context.WithTimeout(ctx, patience)
			// Any answer will do, a refusal, too.
			_, err := rpc.Call(answered, c.Session, rpc.MethodPing, nil)
			silent := err != nil && answered.Err() != nil && ctx.Err() == nil
			end()
			if silent {
				c.Session.Close(profiles.OK)
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
