// Package partner maintains the links to federation partners and forwards requests over
// these links.
//
// A Link keeps one session to a partner: it dials, or takes over a session that the partner
// dialled, it reconnects, and it knows the offer of the other end. Sessions are symmetric,
// so one serves both directions. MCP, RPC and A2A use names of the form partner/name: the
// first segment names the link, the rest is for the other end. Payloads are forwarded octet
// for octet.
//
// The other end authenticates this endpoint. For whom it acts, it asserts according to
// Options.Tell. The access rules here decide whether the caller may use partner/name.
//
// # Forwarding
//
// Directory.Hop puts a hop in front of the handler of a profile. A message with a target
// (extension 52), or with a name that begins with a partner, does not reach the handler. The
// table of the profile (profiles.Crossing) says where the message contains names, and how it
// is answered:
//
//   - once: the exchange is held, the message goes out as a call, and its answer comes back
//     under the msg_id of the caller;
//   - only if it is refused: the message is deferred, and rpc.SyncOf asks the partner to
//     confirm it before it is done here, so that swp.sync of the caller waits for the partner;
//   - several times: Crossing.Pass of the profile, for ranges of an artifact and batches of
//     events.
//
// Messages that arrive on one lane leave on one lane, in order; one goroutine sends them
// while there are any. A message is sent on behalf of its caller (profiles.WithCaller): the
// session of the link adds an assertion to each message that opens an exchange, which a
// teller makes once for each caller. The other endpoint verifies it before the handler, whose
// Request.Identity is then the caller.
//
// MCP and RPC have servers and methods of a partner instead (Backend, conversation), and
// tasks are in profiles/a2a. A Backend clones the request, calls the partner, and ends the
// exchange with the answer. Lists are cut by the rules of both ends. Deliveries are stored
// before they are forwarded, and consumers of a partner's topics attach there; both are in
// profiles/relay.
package partner

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// Link is the link to one partner. It is safe for concurrent use.
type Link struct {
	opts   Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
	claims claims
	heeds  atomic.Bool // the partner supports assertions of callers
	agents *lister
	tools  *lister
	again  chan struct{} // one slot: the partner is to be asked after all

	pins atomic.Pointer[map[string]string] // see SetPinned; nil or empty: none

	draining context.Context // ends with Drain
	drain    context.CancelFunc

	mu       sync.Mutex
	open     []*Up         // candidate sessions, oldest first
	mutual   bool          // the partner has treated this endpoint as a partner
	current  *Up           // the best candidate
	release  func()        // result of Session.Keep for current
	known    bool          // the partner serves swp.info
	mute     bool          // the partner is not asked: a session has ended at swp.info, or that was not answered
	doubts   int           // times in a row that a partner that is known did not answer swp.info
	turned   bool          // the last session without a question has ended at once
	kept     Remembered    // what the partner is remembered to serve
	changed  chan struct{} // closed when current changes
	since    time.Time     // time of the last change of current
	failure  error         // error of the last round of dialling; nil while there is a session
	brief    int           // consecutive dialled sessions that ended at once
	connects uint64
	failures uint64
	seen     *profiles.Peer // peer with the last certificate; immutable
	looked   time.Time      // time of the last connection or attempt

	listed        listedTools                // the last list of its tools
	conversations map[*conversation]struct{} // legacy MCP sessions, which have to be told of Close

	met   map[string]string // digests of pinned tools in lists of its MCP servers; "" if a list lacks one. They are newer than listed
	drift map[string]string // pinned tools that have changed or are gone, and their digests now
}

// superseded is how long a replaced session still accepts what the other end sends before
// it learns of the change.
const superseded = time.Second

// Limits of the statements of a partner: octets of swp.info, the number of stored targets,
// and the length of the name of each.
const (
	maxInfo       = 1 << 20
	maxTargets    = 1024
	maxTargetName = 256
)

// New returns a link. Start starts it.
func New(opts Options) (*Link, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	l := &Link{opts: opts, changed: make(chan struct{}), since: time.Now(), release: func() {}, agents: newLister(), tools: newLister(), again: make(chan struct{}, 1)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.draining, l.drain = context.WithCancel(context.Background())
	l.kept = opts.Remembered
	l.known = l.kept.Answers
	l.declare()
	return l, nil
}

// Start starts to dial. Call it once, when the Directory has the link: the other end asks
// at once whether it is a partner here, and does not ask again.
func (l *Link) Start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() == nil && l.opts.Barred == "" {
		l.work.Go(l.keep)
	}
}

// Name returns the first segment of names of this partner.
func (l *Link) Name() string { return l.opts.Name }

// Identity returns the identity of the partner.
func (l *Link) Identity() string { return l.opts.Identity }

// Drain ends streams that do not end by themselves: the ones on which legacy MCP sessions listen
// to their servers. Requests continue.
func (l *Link) Drain() { l.drain() }

// Close ends the link: it stops dialling and forwarding. It drains the sessions that it had
// dialled, without waiting for them.
func (l *Link) Close() {
	l.mu.Lock()
	l.cancel() // Adopt adds no work after this
	conversations := slices.Collect(maps.Keys(l.conversations))
	l.mu.Unlock()
	for _, c := range conversations {
		c.leave()
	}
	l.work.Wait()
	l.retire()
	l.mu.Lock()
	open := slices.Clone(l.open)
	l.mu.Unlock()
	for _, up := range open {
		if up.Dialled {
			up.Session.Drain()
		}
	}
}

// join has the link tell a conversation of its end, and forget undoes that.
func (l *Link) join(c *conversation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		go c.leave()
		return
	}
	if l.conversations == nil {
		l.conversations = make(map[*conversation]struct{})
	}
	l.conversations[c] = struct{}{}
}

func (l *Link) forget(c *conversation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conversations, c)
}

// Adopt takes over a session that the partner has dialled, without waiting. The session
// carries requests if the other end treats this endpoint as a partner, or if the link has
// no address to dial.
func (l *Link) Adopt(s *endpoint.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil || l.opts.Barred != "" {
		return
	}
	l.work.Go(func() {
		up, err := l.meet(s, false)
		if err == nil && (up.info.Partner || len(l.opts.Addresses) == 0) {
			l.enter(up)
		}
	})
}

// Ready returns the session to the partner. If the link has just gone down, it waits up to
// Options.Wait. The error is an *Error, or that of ctx.
func (l *Link) Ready(ctx context.Context) (*Up, error) {
	var timeout <-chan time.Time
	for {
		l.mu.Lock()
		up, changed, since, failure := l.current, l.changed, l.since, l.failure
		l.mu.Unlock()
		switch {
		case l.opts.Barred != "":
			return nil, l.barred()
		case up != nil && up.Session.Leaving().Err() == nil: // else changed is closed soon
			l.watch(up)
			return up, nil
		case l.ctx.Err() != nil, failure != nil && (time.Since(since) > l.opts.Wait || causeOf(failure).Lasts()):
			return nil, l.unreachable(failure)
		}
		if timeout == nil {
			timer := time.NewTimer(l.opts.Wait)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-changed:
		case <-timeout:
			return nil, l.unreachable(failure)
		case <-l.ctx.Done():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (l *Link) barred() *profiles.Error {
	return &profiles.Error{Code: profiles.SecurityPolicy, Text: l.opts.Barred, Domain: true}
}

// Now returns the current session; nil while the partner is away.
func (l *Link) Now() *Up {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// unlessClosed runs f if the link is not closed; Close waits for it. f must not lock the
// link.
func (l *Link) unlessClosed(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() == nil {
		f()
	}
}

// away returns the time for which the partner has been unreachable, at least a
// millisecond; 0 if there is a session.
func (l *Link) away() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current != nil {
		return 0
	}
	return max(time.Since(l.since), time.Millisecond)
}

// unreachable is the error for a message that was not sent.
func (l *Link) unreachable(cause error) *profiles.Error {
	why, again := "", true
	if refused, ok := errors.AsType[*refusedError](cause); ok {
		why = ": " + refused.Error()
		again = refused.cause.Passes()
	}
	return profiles.LinkFault(profiles.DetailLinkDown, "partner "+l.opts.Name+" cannot be reached now"+why, again, cause)
}

// lost is the error for the caller of a message whose exchange on a session has failed with
// err: an *Error of the exchange, or the loss of the link or the silence of the partner. up
// may be nil. again says that a second message does no harm.
func (l *Link) lost(ctx context.Context, up *Up, err error, again bool) error {
	partner, then := "partner "+l.opts.Name, "; whether it had an effect is not known"
	if again {
		then = "; send it again"
	}
	switch {
	case errors.As(err, new(*profiles.Error)) && (up == nil || up.Session.Context().Err() == nil):
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return profiles.LinkFault(profiles.DetailLinkSilent, partner+" did not answer in time"+then, again, err)
	}
	return profiles.LinkFault(profiles.DetailLinkLost, "the link to "+partner+" was lost"+then, again, err)
}

// Lists returns the current session, nil while the partner is away, and whether the last
// answer of the partner to swp.info lists an optional method. asked is false if there was
// none.
func (l *Link) Lists(method string) (s *endpoint.Session, listed, asked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil {
		return nil, false, false
	}
	return l.current.Session, slices.Contains(l.current.info.Methods, method), l.current.asked
}

// Status returns the current state.
func (l *Link) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{
		Name: l.opts.Name, Identity: l.opts.Identity, Up: l.current != nil, Since: l.since,
		Connects: l.connects, Failures: l.failures, Barred: l.opts.Barred, Drifted: slices.Sorted(maps.Keys(l.drift)),
	}
	if l.seen != nil {
		s.Seen, s.NotAfter = l.seen, l.seen.NotAfter
	}
	switch {
	case l.current != nil:
		peer := l.current.Session.Peer()
		s.Dialled, s.Transport, s.Addr = l.current.Dialled, peer.Transport, peer.Addr
		s.Targets = slices.Clone(l.current.info.Targets)
		s.Untold = l.opts.Tell != TellNone && !profiles.Heeds(l.current.Session, 0, profiles.ExtCaller)
		if streams := l.current.Session.Streams(); streams.Capacity > 0 {
			s.Streams = &streams
		}
	case l.failure != nil:
		s.Failure, s.Cause = l.failure.Error(), causeOf(l.failure).String()
	}
	return s
}

// Targets returns the MCP servers that the other end offers; none while it is away. Callers
// must not modify the slice.
func (l *Link) Targets() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil {
		return nil
	}
	return l.current.info.Targets
}

// while returns a context that ends with Drain, or when another session becomes current. It
// does not end with Close. The caller must call the function afterwards.
func (l *Link) while(ctx context.Context, up *Up) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	l.mu.Lock()
	current, changed := l.current, l.changed
	l.mu.Unlock()
	if current != up {
		cancel()
		return ctx, cancel
	}
	go func() {
		select {
		case <-changed:
			cancel()
		case <-l.draining.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// keep dials while there is no session, and monitors an existing one.
func (l *Link) keep() {
	pauses := backoff.Exponential{First: l.opts.FirstPause, Longest: l.opts.LongestPause}
	again := backoff.Exponential{First: l.opts.FirstPause, Longest: l.lasting()}
	failures, paused := 0, 0
	for l.ctx.Err() == nil {
		l.mu.Lock()
		up, changed := l.current, l.changed
		wait := l.opts.Check
		if up != nil {
			wait = l.every(up)
		}
		brief := l.brief
		l.mu.Unlock()
		paused = min(paused, brief)
		switch {
		case up != nil:
			failures = 0
		case paused < brief:
			wait = backoff.Jitter(again.After(brief - 1))
			paused = brief
		case len(l.opts.Addresses) > 0:
			if err := l.dial(); err != nil {
				l.failed(err)
				wait = backoff.Jitter(pauses.After(failures))
				failures++
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-l.ctx.Done():
		case <-changed:
		case <-l.again:
			if up := l.Now(); up != nil && !up.asked {
				l.check(up)
			}
		case <-timer.C:
			if up != nil {
				l.check(up)
				l.look()
			}
		}
		timer.Stop()
	}
}

// lasting is how long a session has to last for its end to be no failure.
func (l *Link) lasting() time.Duration { return min(8*l.opts.FirstPause, l.opts.LongestPause) }

// every returns the interval of checks of the other end: Options.Check, or half of the
// idle timeout of either end if that is shorter. An idle timeout counts as at least two
// seconds. The caller holds mu.
func (l *Link) every(u *Up) time.Duration {
	most := l.opts.Check
	for _, idle := range []time.Duration{u.Session.Idle(), u.info.Idle()} {
		if idle > 0 {
			most = min(most, max(idle/2, time.Second))
		}
	}
	return most
}

// dial tries the addresses in order. It stops if the partner dials in the meantime.
func (l *Link) dial() error {
	failed := &unreachedError{}
	for _, addr := range l.opts.Addresses {
		err := l.dialOne(addr)
		if err == nil || l.settled() {
			return nil
		}
		failed.addrs, failed.errs = append(failed.addrs, addr), append(failed.errs, err)
	}
	return failed
}

// settled reports whether dialling can stop.
func (l *Link) settled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current != nil || l.ctx.Err() != nil
}

func (l *Link) dialOne(addr transport.Addr) error {
	ctx, cancel := context.WithTimeout(l.ctx, l.opts.DialTimeout)
	defer cancel()
	conn, err := l.opts.Dial(ctx, addr)
	if err != nil {
		return l.blame(ending(err)) // without a code it may be no SWP at all
	}
	s := l.opts.Attach(conn)
	up, err := l.meet(s, true)
	if err != nil {
		s.Close(profiles.OK)
		return l.blame(err)
	}
	l.enter(up)
	return nil
}

// check asks the other end again for its offer. If there is no answer at all, and the partner has no
// reason for silence, it ends the session. If there was no question before, the session is entered
// again with the answer, because who waits for the partner is told of a session once.
func (l *Link) check(up *Up) {
	ctx, cancel := context.WithTimeout(l.ctx, l.opts.Check)
	defer cancel()
	if !l.asks() {
		return
	}
	info, err := l.question(ctx, up.Session)
	if err != nil {
		silent := errors.Is(ctx.Err(), context.DeadlineExceeded)
		if l.ctx.Err() == nil && !(silent && up.Session.MayWait()) {
			up.Session.Close(profiles.Internal)
		}
		return
	}
	l.update(up, info)
}

// While messages are sent to a partner, something has to arrive from it in each quietFor; else
// it has pingFor to answer a ping. Without this, over QUIC the death of a peer stays unnoticed
// for a minute. A partner that dies is noticed in two intervals and pingFor at the latest.
const (
	quietFor = 2500 * time.Millisecond
	pingFor  = 10 * time.Second
)

// watch checks whether the partner responds, because a message is about to be sent to it.
// It does not matter how long its sender waits for the answer.
func (l *Link) watch(up *Up) {
	if !up.used.Load() {
		up.used.Store(true)
	}
	if !up.watched.Load() && up.watched.CompareAndSwap(false, true) {
		up.used.Store(false)
		up.Session.Arrived() // from now on
		time.AfterFunc(quietFor, func() { l.listen(up) })
	}
}

// listen ends a session whose partner does not respond, and listens again if messages were sent
// since the last time.
func (l *Link) listen(up *Up) {
	used := up.used.Swap(false)
	l.crowd(up)
	if !up.Session.Arrived() && !l.responds(up) {
		up.Session.Close(profiles.Internal)
	}
	switch {
	case l.ctx.Err() != nil || up.Session.Context().Err() != nil:
	case used:
		up.Session.Arrived()
		time.AfterFunc(quietFor, func() { l.listen(up) })
	default:
		up.watched.Store(false)
		if up.used.Load() {
			l.watch(up)
		}
	}
}

// crowd observes whether a session has few streams left for messages to the partner.
func (l *Link) crowd(up *Up) {
	streams := up.Session.Streams()
	crowded := streams.Capacity > 0 && streams.Used >= fair.OpenTo(streams.Capacity)
	if up.crowded.Swap(crowded) != crowded && crowded {
		l.opts.Observe(Event{Name: l.opts.Name, What: Crowded, Up: up})
	}
}

// responds reports whether the partner answers a ping, sends anything else, or has a reason for silence.
// Without RPC that is not known.
func (l *Link) responds(up *Up) bool {
	if !profiles.Serves(up.Session, rpc.ProfileID) {
		return true
	}
	ctx, cancel := context.WithTimeout(l.ctx, pingFor)
	defer cancel()
	_, err := rpc.Call(ctx, up.Session.Control(), rpc.MethodPing, nil)
	return err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) || up.Session.Arrived() || up.Session.MayWait()
}

// readInfo reads what a partner says of itself.
func readInfo(result []byte) (info rpc.Info, err error) {
	if len(result) > maxInfo {
		return info, profiles.Errorf(profiles.InvalidProfilePayload, "%s: %d octets, want at most %d", rpc.MethodInfo, len(result), maxInfo)
	}
	if err := json.Unmarshal(result, &info); err != nil {
		return info, &profiles.Error{Code: profiles.InvalidProfilePayload, Text: rpc.MethodInfo + ": not what is expected of it", Cause: err}
	}
	// Names of partners of the partner work too, but are not listed: two partners that list
	// each other would grow the list forever.
	info.Targets = slices.DeleteFunc(info.Targets, func(name string) bool {
		return name == "" || len(name) > maxTargetName || strings.Contains(name, "/")
	})
	info.Targets = info.Targets[:min(len(info.Targets), maxTargets)]
	return info, nil
}

func (l *Link) failed(err error) {
	l.mu.Lock()
	if l.drains() && causeOf(err) == causes.None { // it accepts no connections, and has said why
		err = refusal(causes.Draining, err)
	}
	l.failure = err
	l.failures++
	l.mu.Unlock()
	l.opts.Observe(Event{Name: l.opts.Name, What: Failed, Err: err})
}
