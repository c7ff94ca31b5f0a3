package client

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport/endpoint"
)

// aliveEvery is how often the peer is asked for a sign of life during a wait. Silence
// proves nothing: a peer that has restarted has forgotten the connection, and over QUIC
// reports that only when it receives something.
const aliveEvery = 5 * time.Second

// defaultIdle is the assumed idle timeout of an endpoint that does not report one.
const defaultIdle = 10 * time.Minute

// calls says whether the peer serves profile 12. A peer that does not ends the connection
// at the first message of that profile.
type calls uint8

const (
	untold   calls = iota
	served         // the peer has answered a call
	unserved       // the peer has ended a connection at the first call
)

// held is a connection of a Kept.
type held struct {
	c     *Client
	since time.Time
	heard atomic.Int64  // when the peer gave its last sign of life, as Unix nanoseconds
	woken chan struct{} // Hold or Watch has changed

	replaced bool // another connection is in use; guarded by mu of the Kept
}

func (h *held) wake() {
	select {
	case h.woken <- struct{}{}:
	default:
	}
}

// fresh reports whether no sign of life is needed: the peer has just given one, or cannot
// give any.
func (h *held) fresh() bool {
	return h.c.info.Load() == nil || time.Since(time.Unix(0, h.heard.Load())) < aliveEvery
}

// idle is the time without use after which either end closes the connection.
func (h *held) idle() time.Duration {
	own := cmp.Or(h.c.opts.Endpoint.Bounds.Idle, defaultIdle)
	if idle := h.c.info.Load().Idle(); idle > 0 {
		return min(own, idle)
	}
	return min(own, defaultIdle)
}

// sign asks the peer for a sign of life: any answer, including a refusal. Without one
// within patience it closes the connection. It reports whether the connection is good.
func (h *held) sign(patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(h.c.Context(), patience)
	defer cancel()
	_, err := rpc.Call(ctx, h.c.peer, rpc.MethodPing, nil)
	switch {
	case err != nil && h.c.Context().Err() == nil && ctx.Err() != nil:
		h.c.peer.Close(profiles.OK)
	case h.c.Context().Err() == nil:
		h.heard.Store(time.Now().UnixNano())
		return true
	}
	return false
}

// questions is how many connections have to end at the question what a peer offers before it is known
// not to serve profile 12, and questionPause the time between them. Some can end because a process was
// killed or stopped just then, and another one takes its place.
const (
	questions     = 3
	questionPause = time.Second
)

// meet makes a connection and asks the peer what it offers. If the peer ends the connections
// at that question, it does not serve profile 12: meet dials once more, and the peer is
// never asked again.
func (k *Kept) meet(ctx context.Context) (*held, error) {
	c, err := k.dial(ctx)
	if err != nil {
		return nil, err
	}
	if k.knows() == unserved {
		c.mute = true
		return newHeld(c), nil
	}
	for range questions {
		if err = k.ask(ctx, c); err == nil {
			return newHeld(c), nil
		}
		c.Close()
		if k.knows() == served || !endpoint.OverProfile(err) {
			return nil, err
		}
		if waited := backoff.Wait(ctx, questionPause); waited != nil {
			return nil, waited
		}
		if c, err = k.dial(ctx); err != nil {
			return nil, err
		}
		if c.gone() { // the question is not the reason: the peer refuses this side
			err = c.Explain(context.Cause(c.Context()))
			c.Close()
			return nil, err
		}
	}
	k.learn(unserved)
	c.mute = true
	return newHeld(c), nil
}

func newHeld(c *Client) *held {
	h := &held{c: c, since: time.Now(), woken: make(chan struct{}, 1)}
	h.heard.Store(h.since.UnixNano())
	return h
}

func (k *Kept) dial(ctx context.Context) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, k.o.Timeout)
	defer cancel()
	return k.o.Dial(ctx)
}

// ask asks the peer what it offers. A peer that refuses the question serves profile 12.
func (k *Kept) ask(ctx context.Context, c *Client) error {
	ctx, cancel := context.WithTimeout(ctx, k.o.Timeout)
	defer cancel()
	info, err := c.Info(ctx)
	if errors.As(err, new(*rpc.Error)) {
		info, err = new(rpc.Info), nil
	}
	if err == nil {
		c.info.Store(info)
		k.learn(served)
	}
	return err
}

func (k *Kept) knows() calls {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls
}

func (k *Kept) learn(what calls) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls = what
}
