package client

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/internal/bridge/mcpclient"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

// KeepOptions configure Keep. Dial is required; elsewhere zero means the stated default.
type KeepOptions struct {
	// Dial makes a connection. One goroutine at a time calls it, after each loss again.
	Dial Dialer

	// Timeout is the time limit for connecting, and for each sign of life of the peer.
	// Default 10 s.
	Timeout time.Duration

	// Patience is how long Get waits for a peer that was reached before. After that Get
	// only tries once. Default 10 s.
	Patience time.Duration

	// Lost is called with the reason when a connection has ended, unless Close ended it. It
	// must not block. It may be nil.
	Lost func(err error)
}

// Kept is a connection that is made when it is needed and replaced when it has ended:
// because it was idle, the peer restarted, or the network failed. Any number of goroutines
// may call its methods at the same time.
//
// After a failed attempt there is a pause. While a Get waits for the peer, pauses grow up to five
// seconds and are shortened at random. Without a call of Hold the peer may close an idle connection; the next Get
// dials again.
type Kept struct {
	o      KeepOptions
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	turn   chan struct{} // held by the goroutine that makes the connection

	dialling chan struct{} // held by the goroutine that calls Dial

	work sync.WaitGroup

	mu       sync.Mutex
	now      *held // nil: none
	holds    int   // of Hold
	watches  int   // of Watch
	calls    calls // whether the peer serves profile 12
	known    bool  // the peer was reached before
	down     time.Time
	failures int       // in a row
	next     time.Time // earliest time of the next attempt
	tried    time.Time // end of the last attempt, if it has failed
	err      error     // of the last attempt
	scouting time.Time // of the next call of reconnoitre
	scouted  int       // questions without an answer
}

// ErrKeptClosed is the error of a Kept after Close.
var ErrKeptClosed = errors.New("client: the kept connection was closed")

// tryAgain is the shortest pause between two attempts of calls of Get that do not wait for the
// peer to come back.
const tryAgain = 250 * time.Millisecond

// worthwhile is the life of a connection after which the next is dialled without a pause. A
// peer that refuses this side ends the connection earlier.
const worthwhile = time.Second

// Keep returns a Kept. It does not dial; the first Get does. The caller closes it.
func Keep(o KeepOptions) *Kept {
	o.Timeout, o.Patience = cmp.Or(o.Timeout, profiles.AnswerWait), cmp.Or(o.Patience, profiles.AnswerWait)
	k := &Kept{o: o, turn: make(chan struct{}, 1), dialling: make(chan struct{}, 1)}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// To returns the Dialer of an address in the form of Dial. It reads the files of the
// identity for each connection, so that certificates can be renewed.
func To(address string, opts Options) Dialer {
	return func(ctx context.Context) (*Client, error) { return Dial(ctx, address, opts) }
}

// Get returns the present connection, or a new one. If the connection has been quiet for a
// while and the peer serves profile 12, Get first asks for a sign of life: so no message is
// lost on a connection that the peer has already closed.
//
// The Client is usable until its Context ends. Call Get for each use; do not close the
// Client. Get waits for a peer that has been unreachable for less than Patience. One that was
// not reached for longer, or never, is tried once; calls of Get that wait for that attempt share
// its error. The error is that of Dial, ErrKeptClosed, or the cause of ctx.
func (k *Kept) Get(ctx context.Context) (*Client, error) {
	began := time.Now()
	if h := k.current(); h != nil && h.fresh() {
		return h.c, nil
	}
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-k.ctx.Done():
		return nil, ErrKeptClosed
	}
	defer func() { <-k.turn }()
	if k.ctx.Err() != nil {
		return nil, ErrKeptClosed
	}
	if h := k.current(); h != nil && (h.fresh() || h.sign(k.o.Timeout)) {
		return h.c, nil
	}
	return k.again(ctx, began)
}

// Hold prevents the idle timeout of connections until release is called: the peer is asked
// for a sign of life at half its idle time, if it serves profile 12. Hold does not dial.
func (k *Kept) Hold() (release func()) { return k.need(&k.holds) }

// Watch is Hold that also detects a peer that has disappeared. The peer is asked for a sign
// of life every five seconds, or at half its idle time if that is shorter. If it does not
// answer within Timeout, the connection is closed.
func (k *Kept) Watch() (release func()) { return k.need(&k.watches) }

func (k *Kept) need(count *int) (release func()) {
	k.add(count, 1)
	return sync.OnceFunc(func() { k.add(count, -1) })
}

func (k *Kept) add(count *int, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if *count += n; k.now != nil {
		k.now.wake()
	}
}

// Link implements mcptransport.Peer, for an MCP client over this connection.
func (k *Kept) Link(ctx context.Context) (mcpclient.Link, error) {
	c, err := k.Get(ctx)
	if err != nil {
		return mcpclient.Link{}, err
	}
	info := c.info.Load()
	return mcpclient.Link{
		Session: c.Session, MCP: c.MCP(), RPC: info != nil, Targets: info != nil && tellsServersApart(info),
	}, nil
}

// Tasks returns the present connection and the profile that sends tasks over it. A name of
// an agent is accepted only if the peer says that it supports names of agents; the empty
// name is always accepted.
func (k *Kept) Tasks(ctx context.Context, agent string) (profiles.Session, *a2a.Service, error) {
	c, err := k.Get(ctx)
	if err == nil {
		err = c.CheckAgent(ctx, agent)
	}
	if err != nil {
		return nil, nil, err
	}
	return c.Session, c.A2A(), nil
}

// Close ends the connection as Client.Finish does, and makes no new one.
func (k *Kept) Close() {
	k.cancel()
	k.turn <- struct{}{}
	defer func() { <-k.turn }()
	k.mu.Lock()
	h := k.now
	k.now = nil
	k.mu.Unlock()
	if h != nil {
		h.c.Finish()
	}
	k.work.Wait()
}

// current returns the connection, if it is usable: it has not ended, and the peer takes requests on it.
func (k *Kept) current() *held {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now == nil || k.now.c.Context().Err() != nil || k.now.c.peer.Leaving().Err() != nil {
		return nil
	}
	return k.now
}

// again dials until the peer answers, or a retry cannot help. The caller holds turn, for which
// it has waited since it began.
func (k *Kept) again(ctx context.Context, began time.Time) (*Client, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(k.ctx, func() { cancel(ErrKeptClosed) })()
	for {
		wait, err := k.due(began)
		if err != nil {
			return nil, err
		}
		if err := backoff.Wait(ctx, wait); err != nil {
			return nil, err
		}
		h, err := k.connect(ctx, true)
		switch {
		case err == nil:
			return h.c, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		if !k.failed(err) {
			return nil, err
		}
	}
}

// due returns the time until the next attempt, or the error of the last attempt if it has failed
// since a caller began and that is not waited for.
func (k *Kept) due(began time.Time) (time.Duration, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	wait := time.Until(k.next)
	switch {
	case wait <= 0 || k.err == nil || k.patient(wait):
		return wait, nil
	case !k.tried.Before(began):
		return 0, k.err
	}
	return min(wait, time.Until(k.tried.Add(tryAgain))), nil
}

// patient reports whether a pause is within Patience. The caller holds mu.
func (k *Kept) patient(pause time.Duration) bool {
	return k.known && time.Since(k.down)+pause <= k.o.Patience
}

// failed records a failed attempt, and reports whether to wait for the next one.
func (k *Kept) failed(err error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down.IsZero() {
		k.down = time.Now()
	}
	k.err, k.tried = err, time.Now()
	return k.patient(k.backOff())
}

// backOff begins a pause and returns its length. The caller holds mu.
func (k *Kept) backOff() time.Duration {
	wait := backoff.Jitter(pauses.After(k.failures))
	k.failures, k.next = k.failures+1, time.Now().Add(wait)
	return wait
}

// connect makes a connection, see meet, and makes it the present one. The caller holds turn, or is the
// only user.
func (k *Kept) connect(ctx context.Context, first bool) (*held, error) {
	h, err := k.meet(ctx, first)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx.Err() != nil {
		h.c.Close()
		return nil, ErrKeptClosed
	}
	if k.now != nil {
		k.now.replaced = true
	}
	k.now, k.known, k.down, k.err = h, true, time.Time{}, nil
	k.work.Go(func() { k.look(h) })
	return h, nil
}

// one is Get with a single attempt. It is for a caller that is the only user, has its own
// pauses and may close the connection. Without first, its work goes before the question what the peer
// offers, which is then put later, if a sign of life is needed.
func (k *Kept) one(ctx context.Context, first bool) (*Client, error) {
	h, err := k.connect(ctx, first)
	if err != nil {
		return nil, err
	}
	return h.c, nil
}

// look maintains a connection until it has ended.
func (k *Kept) look(h *held) {
	defer h.c.Close()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Stop()
		if every := k.every(h); every > 0 {
			timer.Reset(every)
		}
		select {
		case <-h.c.Context().Done():
			k.lost(h)
			return
		case <-k.ctx.Done():
			if !k.replaced(h) {
				<-h.c.Context().Done() // Close ends it
			}
			return
		case <-h.woken:
		case <-timer.C:
			if h.c.info.Load() == nil {
				k.reconnoitre(h)
			} else {
				h.sign(k.o.Timeout)
			}
		}
	}
}

// replaced reports whether a connection was left to its end, because the peer drains it.
func (k *Kept) replaced(h *held) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return h.replaced
}

// every is the present interval between requests for a sign of life, or the time until a peer without an
// answer to swp.info is asked again; 0 means never.
func (k *Kept) every(h *held) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case h.c.info.Load() == nil:
		if k.scouting.IsZero() {
			k.scout(time.Now())
		}
		if k.watches+k.holds == 0 || k.calls == unserved || k.scouted > maxScouts {
			return 0
		}
		return max(time.Until(k.scouting), time.Millisecond)
	case k.watches > 0:
		return min(aliveEvery, h.idle()/2)
	case k.holds > 0:
		return h.idle() / 2
	}
	return 0
}

// lost records the end of a connection.
func (k *Kept) lost(h *held) {
	k.mu.Lock()
	if k.now == h {
		k.now = nil
	}
	k.down, k.next, k.err = time.Now(), time.Time{}, nil
	if time.Since(h.since) < worthwhile {
		k.backOff()
	} else {
		k.failures = 0
	}
	k.mu.Unlock()
	if k.o.Lost != nil {
		k.o.Lost(h.c.Explain(context.Cause(h.c.Context())))
	}
}
