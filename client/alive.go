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

// calls says whether the peer serves profile 12. One that does not may end the connection at the first
// message of that profile.
type calls uint8

const (
	untold    calls = iota
	served          // the peer has answered a call
	uncertain       // it did not answer swp.info; perhaps it does not serve profile 12
	unserved        // it has said that it does not serve profile 12
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
// within patience it closes the connection, unless the peer has a reason for silence. It reports
// whether the connection is good.
func (h *held) sign(patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(h.c.Context(), patience)
	defer cancel()
	_, err := rpc.Call(ctx, h.c.peer, rpc.MethodPing, nil)
	switch {
	case err != nil && h.c.Context().Err() == nil && ctx.Err() != nil:
		if h.c.peer.MayWait() {
			return true
		}
		h.c.peer.Close(profiles.OK)
	case h.c.Context().Err() == nil:
		h.heard.Store(time.Now().UnixNano())
		return true
	}
	return false
}

// answersSoon is how long work waits for the answer to swp.info of a peer that has not answered a call
// before.
const answersSoon = 3 * time.Second

// A peer that did not answer swp.info is asked again after these pauses, so many times: it may have ended
// just then, and another process has taken its place.
var scouts = backoff.Exponential{First: aliveEvery, Longest: time.Minute}

const maxScouts = 3

// meet makes a connection. With first, the peer is asked what it offers before the connection is used,
// unless it did not answer that before: the question is optional, so any end of the connection, or
// silence, leads to one that is used without an answer.
func (k *Kept) meet(ctx context.Context, first bool) (*held, error) {
	c, err := k.dial(ctx)
	if err != nil {
		return nil, err
	}
	switch known := k.knows(); {
	case known == served:
		if err := k.ask(ctx, c, k.o.Timeout); err != nil {
			c.Close()
			return nil, err
		}
	case known == untold && !first:
	case known != untold:
		k.hush(c)
	default:
		err := k.ask(ctx, c, min(answersSoon, k.o.Timeout))
		if err == nil {
			break
		}
		ended := c.over(err)
		if ctx.Err() != nil || ended && !endpoint.OverProfile(context.Cause(c.Context())) {
			err = c.Explain(err)
			c.Close()
			return nil, err
		}
		if ended {
			c.Close()
			if c, err = k.dial(ctx); err != nil {
				return nil, err
			}
		}
		k.doubt(err)
		k.hush(c)
	}
	return newHeld(c), nil
}

// hush has no message of profile 12 sent over a connection before an inquiry.
func (k *Kept) hush(c *Client) {
	c.mute.Store(true)
	c.lacks.Store(k.knows() == unserved)
	c.inquire = func(ctx context.Context) error { return k.inquire(ctx, c) }
}

// inquire asks the peer of a mute connection for swp.info over a separate connection, which the peer may
// end: what was sent over the first one is not at risk.
func (k *Kept) inquire(ctx context.Context, mute *Client) error {
	c, err := k.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := k.ask(ctx, c, k.o.Timeout); err != nil {
		if endpoint.OverProfile(err) && c.over(err) {
			mute.lacks.Store(true)
		}
		return err
	}
	info := c.info.Load()
	mute.peer.Known().Learn(info.Offer())
	mute.mute.Store(false)
	mute.info.Store(info)
	return nil
}

// speaks reports whether the peer serves profile 12, for work that needs it. A peer that did not answer
// swp.info may have been busy, or have ended just then, so it is asked again.
func (c *Client) speaks(ctx context.Context) bool {
	if !c.mute.Load() {
		return true
	}
	return !c.lacks.Load() && c.inquire != nil && c.inquire(ctx) == nil
}

// over reports whether the connection has ended after a call that failed with err. The end follows such
// a failure where the connection is one stream.
func (c *Client) over(err error) bool {
	if errors.Is(err, endpoint.ErrNoAnswer) {
		return c.gone()
	}
	return c.Context().Err() != nil
}

// doubt notes that the peer did not answer swp.info.
func (k *Kept) doubt(err error) {
	fault, said := errors.AsType[*profiles.Error](err)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls = uncertain
	if said && fault.Code == profiles.UnknownProfile {
		k.calls = unserved
	}
	k.scout(time.Now())
}

// scout sets the time of the next question over a separate connection. The caller holds mu.
func (k *Kept) scout(now time.Time) {
	k.scouting = now.Add(scouts.After(k.scouted))
	k.scouted++
}

// reconnoitre makes an inquiry for a connection.
func (k *Kept) reconnoitre(h *held) {
	ctx, cancel := context.WithTimeout(h.c.Context(), k.o.Timeout)
	defer cancel()
	defer context.AfterFunc(k.ctx, cancel)()
	if k.inquire(ctx, h.c) == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.scout(time.Now())
}

func newHeld(c *Client) *held {
	h := &held{c: c, since: time.Now(), woken: make(chan struct{}, 1)}
	h.heard.Store(h.since.UnixNano())
	return h
}

func (k *Kept) dial(ctx context.Context) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, k.o.Timeout)
	defer cancel()
	select {
	case k.dialling <- struct{}{}:
		defer func() { <-k.dialling }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return k.o.Dial(ctx)
}

// ask asks the peer what it offers. A peer that refuses the question serves profile 12.
func (k *Kept) ask(ctx context.Context, c *Client, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	info, err := c.offer(ctx)
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
