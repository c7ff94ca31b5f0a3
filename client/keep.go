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

// KeepOptions configure Keep. Dial is required; zero elsewhere means the default that
// is named.
type KeepOptions struct {
	// Dial makes a connection. It is called again when one has ended, by one goroutine
	// at a time.
	Dial Dialer

	// Timeout is how long connecting may take, and each sign of life of the peer.
	// Default 10 s.
	Timeout time.Duration

	// Patience is how long a peer that was there before may be away until Get does not
	// wait for it any more, but tries once. Default 10 s.
	Patience time.Duration

	// Lost is called with the reason when a connection has ended that Close did
	// not end. It must not block. It may be nil.
	Lost func(err error)
}

// Kept is a connection that is made when it is needed, and replaced when it has ended:
// because it was idle, because the peer began anew, or because the network failed. Its
// methods may be called by any number of goroutines at once.
//
// Between two attempts that fail there are pauses, which grow to five seconds and are
// cut at random. While nobody holds it the peer may end a connection that is idle; the
// next Get dials again.
type Kept struct {
	o      KeepOptions
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	turn   chan struct{} // held by the goroutine that maintains the connection
	work   sync.WaitGroup

	mu       sync.Mutex
	now      *held // nil: none
	holds    int   // of Hold
	watches  int   // of Watch
	calls    calls // whether the peer serves profile 12
	known    bool  // the peer was there before
	down     time.Time
	failures int       // in a row
	next     time.Time // no attempt before that
	err      error     // of the last one
}

// ErrKeptClosed is the error of a Kept after Close.
var ErrKeptClosed = errors.New("client: the connection is not kept any more")

// worthwhile is how long a connection lasts for the next to be dialled without a pause:
// a peer that does not let this side in ends it at once.
const worthwhile = time.Second

// Keep returns a Kept. Nothing is dialled before the first Get, Hold or Watch does not
// dial. The caller closes it.
func Keep(o KeepOptions) *Kept {
	o.Timeout, o.Patience = cmp.Or(o.Timeout, 10*time.Second), cmp.Or(o.Patience, 10*time.Second)
	k := &Kept{o: o, turn: make(chan struct{}, 1)}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// To returns the Dialer of an address as Dial reads it. The files of the identity are
// read for each connection, so that certificates may be renewed in between.
func To(address string, opts Options) Dialer {
	return func(ctx context.Context) (*Client, error) { return Dial(ctx, address, opts) }
}

// Get returns the connection there is, or a new one. A connection that has been quiet
// for a while is asked for a sign of life first, if the peer serves profile 12: so a
// message is not lost to a connection that the peer alone knows to be closed.
//
// The Client is good until its Context ends; a caller that asks for it with each use is
// never left with one that has ended. It is not the caller's to close. Get waits for a
// peer that has been away for less than Patience; if it never was there the first error
// is returned at once. The error is that of Dial, ErrKeptClosed, or the cause of ctx.
func (k *Kept) Get(ctx context.Context) (*Client, error) {
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
	return k.again(ctx)
}

// Hold keeps connections from ending because they are idle, until release is called: the
// peer is asked for a sign of life at half its idle time, if it serves profile 12. Hold
// does not dial.
func (k *Kept) Hold() (release func()) { return k.need(&k.holds) }

// Watch is Hold that also finds out soon that the peer is gone without a word: it is
// asked every five seconds or at half its idle time, and a connection on which it leaves
// that unanswered for Timeout is ended.
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

// Tasks returns the present connection and the profile that sends tasks over it. An
// agent is named only to a peer that says that it tells agents apart; the empty name is
// for all.
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

// Close ends the connection in order, see Client.Finish, and keeps none any more.
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

// current returns the connection, if there is one that is good.
func (k *Kept) current() *held {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now == nil || k.now.c.Context().Err() != nil {
		return nil
	}
	return k.now
}

// again dials until the peer answers, or a retry cannot help. The caller has the
// turn.
func (k *Kept) again(ctx context.Context) (*Client, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(k.ctx, func() { cancel(ErrKeptClosed) })()
	for {
		wait, err := k.due()
		if err != nil {
			return nil, err
		}
		if err := backoff.Wait(ctx, wait); err != nil {
			return nil, err
		}
		h, err := k.connect(ctx)
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

// due returns how long it is until the next attempt, or the error of the last one if
// that is too long.
func (k *Kept) due() (time.Duration, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	wait := time.Until(k.next)
	if wait > 0 && k.err != nil && !k.patient(wait) {
		return 0, k.err
	}
	return wait, nil
}

// patient reports whether a pause is within Patience. The caller holds mu.
func (k *Kept) patient(pause time.Duration) bool {
	return k.known && time.Since(k.down)+pause <= k.o.Patience
}

// failed notes an attempt that failed, and reports whether the next one is worth
// waiting for.
func (k *Kept) failed(err error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down.IsZero() {
		k.down = time.Now()
	}
	k.err = err
	return k.patient(k.backOff())
}

// backOff begins a pause and returns its length. The caller holds mu.
func (k *Kept) backOff() time.Duration {
	wait := backoff.Jitter(pauses.After(k.failures))
	k.failures, k.next = k.failures+1, time.Now().Add(wait)
	return wait
}

// connect makes a connection the present one. The caller has the turn, or is the only
// user.
func (k *Kept) connect(ctx context.Context) (*held, error) {
	h, err := k.meet(ctx)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx.Err() != nil {
		h.c.Close()
		return nil, ErrKeptClosed
	}
	k.now, k.known, k.down, k.err = h, true, time.Time{}, nil
	k.work.Go(func() { k.look(h) })
	return h, nil
}

// one is Get for one attempt at a new connection, for an only user, which has its own
// pauses and may close the connection.
func (k *Kept) one(ctx context.Context) (*Client, error) {
	h, err := k.connect(ctx)
	if err != nil {
		return nil, err
	}
	return h.c, nil
}

// look looks after a connection until it has ended.
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
		case <-k.ctx.Done(): // Close ends it in order
			<-h.c.Context().Done()
			return
		case <-h.woken:
		case <-timer.C:
			h.sign(k.o.Timeout)
		}
	}
}

// every is how often the peer is asked for a sign of life now; 0 is never.
func (k *Kept) every(h *held) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case h.c.info.Load() == nil:
		return 0
	case k.watches > 0:
		return min(aliveEvery, h.idle()/2)
	case k.holds > 0:
		return h.idle() / 2
	}
	return 0
}

// lost notes that a connection has ended.
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
