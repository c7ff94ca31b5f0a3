package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/relay"
)

// DeliveryStatus returns the state of a delivery of this identity, and the number of the
// attempt that is due, in progress or was the last.
func (c *Client) DeliveryStatus(ctx context.Context, id []byte) (relay.State, uint32, error) {
	state, attempts, err := relay.Ask(ctx, c.Session, id)
	return state, attempts, c.Explain(err)
}

// DeadPage calls yield with a page of the dead deliveries of this identity, in the order of
// relay.DeadPage. next is the value of After for the next page, or empty.
func (c *Client) DeadPage(ctx context.Context, in relay.DeadParams, yield func(*relay.Dead)) (next string, err error) {
	var page relay.DeadPage
	if err := c.there().callJSON(ctx, relay.MethodDead, in, &page); err != nil {
		return "", c.Explain(err)
	}
	for i := range page.Dead {
		yield(&page.Dead[i])
	}
	if page.Next == in.After {
		return "", nil // the peer repeats a page
	}
	return page.Next, nil
}

// FindDead returns a dead delivery of this identity, nil if it is not in the list.
func (c *Client) FindDead(ctx context.Context, id []byte) (found *relay.Dead, err error) {
	found, err = relay.FindDead(func(params []byte) ([]byte, error) { return c.there().call(ctx, relay.MethodDead, params) }, id)
	return found, c.Explain(err)
}

// FindHeld returns a delivery of this identity that waits because a partner does not accept
// it now; nil if there is no such reason.
func (c *Client) FindHeld(ctx context.Context, id []byte) (held *relay.Held, err error) {
	held, err = relay.FindHeld(func(params []byte) ([]byte, error) { return c.there().call(ctx, relay.MethodDead, params) }, id)
	return held, c.Explain(err)
}

// HeldBy returns the endpoint that does not accept a delivery, if one has said so.
func (c *Client) HeldBy(h *relay.Held) Author {
	return authorOf(c.peer.Peer().Identity, h.Refusal.Endpoint, h.Partner+"/")
}

// RefusedBy returns the endpoint that has refused a dead delivery, if one has; see
// relay.Dead.Refusal.
func (c *Client) RefusedBy(d *relay.Dead) Author {
	if d.Refusal == nil {
		return Author{}
	}
	return c.author(d.Refusal.Endpoint, d.Topic)
}

// slowLooks is the number of requests after which Publisher.Slow is called, each time.
const slowLooks = 8

// looks are the pauses between two requests for the state of a delivery.
var looks = backoff.Exponential{First: 25 * time.Millisecond, Longest: time.Second}

// Await waits until each of a list of published deliveries has been processed or is dead.
// It calls over with the final state and the connection that reported it. An error of over
// ends Await with that error. Requests are sent over as many connections as necessary.
func (p *Publisher) Await(ctx context.Context, ids iter.Seq[[]byte], over func(c *Client, id []byte, state relay.State, attempts uint32) error) error {
	next, stop := iter.Pull(ids)
	defer stop()
	id, more := next()
	again := p.again()
	again.known = true
	return again.run(ctx, func(ctx context.Context, c *Client, moved func()) error {
		for n := 0; more; {
			if n > 0 && n%slowLooks == 0 && p.Slow != nil {
				p.Slow(ctx, c, id)
			}
			asking, cancel := context.WithTimeout(ctx, p.silence())
			state, attempts, err := relay.Ask(asking, c.Session, id)
			cancel()
			if errors.Is(err, context.DeadlineExceeded) {
				c.peer.Close(profiles.OK)
			}
			if asked, ok := errors.AsType[*profiles.PeerError](err); ok && asked.Retryable() {
				state, err = relay.Queued, nil // a partner has it, and cannot be asked now
			}
			if err != nil {
				return err
			}
			moved()
			if state == relay.Acked || state == relay.DeadState {
				if err := over(c, id, state, attempts); err != nil {
					return &finalError{err}
				}
				n = 0
				id, more = next()
				continue
			}
			if err := backoff.Wait(ctx, looks.After(n)); err != nil {
				return err
			}
			n++
		}
		return nil
	})
}
