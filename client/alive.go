package client

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// aliveEvery is how often the peer is asked whether it is there while nothing
// but waiting is done. Silence proves nothing: a peer that crashed and is back
// has forgotten the connection, and over QUIC says so only when it is asked.
const aliveEvery = 5 * time.Second

// defaultIdle is after what time an endpoint ends an idle connection if it does not say.
const defaultIdle = 10 * time.Minute

// calls says whether the peer serves profile 12. One that does not ends the connection
// over any message of it.
type calls uint8

const (
	untold   calls = iota
	served         // it has answered some
	unserved       // it has ended a connection over the first
)

// held is a connection of a Kept.
type held struct {
	c     *Client
	since time.Time
	heard atomic.Int64  // when the peer gave its last sign of life, as Unix nanoseconds
	woken chan struct{} // the needs have changed
}

func (h *held) wake() {
	select {
	case h.woken <- struct{}{}:
	default:
	}
}

// fresh reports whether the peer need not be asked for a sign of life: it has given
// one, or cannot.
func (h *held) fresh() bool {
	return h.c.info.Load() == nil || time.Since(time.Unix(0, h.heard.Load())) < aliveEvery
}

// idle is after what time without use the connection ends, at either end.
func (h *held) idle() time.Duration {
	own := cmp.Or(h.c.opts.Endpoint.Bounds.Idle, defaultIdle)
	if idle := h.c.info.Load().Idle(); idle > 0 {
		return min(own, idle)
	}
	return min(own, defaultIdle)
}

// sign asks the peer for a sign of life, any answer, a refusal, too. Without one for
// patience, the connection is closed. It reports whether the connection is good.
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

// meet makes a connection, and asks the peer what it offers. Only a peer that is known
// to serve profile 12 is asked anything by it later; one that ends the connection over
// the first question is dialled once more, and asked nothing.
func (k *Kept) meet(ctx context.Context) (*held, error) {
	c, err := k.dial(ctx)
	if err != nil {
		return nil, err
	}
	if k.knows() == unserved {
		return newHeld(c), nil
	}
	if err = k.ask(ctx, c); err == nil {
		return newHeld(c), nil
	}
	c.Close()
	if k.knows() == served || !overProfile(err) {
		return nil, err
	}
	if c, err = k.dial(ctx); err != nil {
		return nil, err
	}
	if c.gone() { // so it is not that: the peer does not let this side in
		err = c.Explain(context.Cause(c.Context()))
		c.Close()
		return nil, err
	}
	k.learn(unserved)
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

// ask has the peer say what it offers. A peer that refuses to say does serve profile 12.
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

// overProfile reports whether a connection may have ended because of a message of a
// profile that the peer does not serve.
func overProfile(err error) bool {
	closed, fault := (*transport.CloseError)(nil), (*profiles.Error)(nil)
	switch {
	case errors.As(err, &closed):
		return closed.Remote && (closed.Code == 0 || closed.Code == uint64(profiles.UnknownProfile))
	case errors.As(err, &fault):
		return fault.Code == profiles.UnknownProfile
	}
	return errors.Is(err, endpoint.ErrEnded) || errors.Is(err, endpoint.ErrNoAnswer) || errors.Is(err, syscall.ECONNRESET)
}
