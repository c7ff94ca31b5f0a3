package mcpfront

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/internal/bridge/mcpheader"
	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
)

// frontSession is one legacy session of a client: an id of this front's own, bound to
// its caller, that stands for a session at the other end of the link.
type frontSession struct {
	f      *Front
	id     string // random, never sufficient without the caller (ABUSE GW-05)
	caller string
	target string
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // calls in flight

	moving sync.Mutex // held while the session is taken to another link

	mu        sync.Mutex
	remote    string // id at the other end; "" until initialize is answered
	version   string // what initialize has agreed upon
	link      *Link
	asked     map[string]waiting // requests of the server, by the key of their id
	feeds     map[uint64]*feed
	feedsMade uint64
	entries   []entry // of all feeds, the oldest first
	octets    int64
	held      *memory.Hold // of the entries
	dropped   bool
	changed   chan struct{} // closed when there is something new
	uses      int           // requests, calls and streams now
	used      time.Time     // the end of the last of them
	tasks     mcpmap.Tasks  // of the server
	expiry    *time.Timer
}

// waiting is a request of a server that its client has not answered.
type waiting struct {
	asked *mcpmap.Asked
	since time.Time
}

// maxAsked is how many requests of a server may wait for one client. Those that are
// older than askedTime have been given up by the link.
const (
	maxAsked  = 64
	askedTime = 10 * time.Minute
)

// leaveTime is how long the other end has to take note of the end of a session.
const leaveTime = 5 * time.Second

// open enters a new session. An idle session ends if there is no other place.
func (f *Front) open(ctx context.Context, caller, target string, link *Link) (*frontSession, bool) {
	s := &frontSession{
		f: f, held: f.opts.Memory.Hold(caller), id: rand.Text(), caller: caller, target: target, link: link,
		asked: make(map[string]waiting), feeds: make(map[uint64]*feed), changed: make(chan struct{}), uses: 1,
	}
	s.feeds[0] = &feed{told: true}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.expiry = time.AfterFunc(f.opts.SessionIdle, s.expire)
	s.expiry.Stop()
	answer := f.enter(s)
	if answer != fair.Taken {
		ctx, cancel := context.WithTimeout(ctx, leaveTime)
		defer cancel()
		for _, idle := range f.idle(caller, answer == fair.Full) {
			if idle.yield(ctx, s) {
				answer = fair.Taken
				break
			}
		}
	}
	if answer != fair.Taken {
		s.cancel()
		s.held.Release()
		return nil, false
	}
	return s, true
}

// enter enters a session, if there is a place.
func (f *Front) enter(s *frontSession) fair.Answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.ctx.Err() != nil || f.places.Of(s.caller) >= f.opts.MaxSessionsPerCaller {
		return fair.Above
	}
	answer := f.places.Take(s.caller, 1)
	if answer == fair.Taken {
		f.sessions[s.id] = s
	}
	return answer
}

// idle lists idle sessions, without a request, a call, a GET stream or a task, to end for a new session of a
// caller. They are sessions of the caller. full says that it is within its share: then sessions of callers
// with more are before them. Of each kind the least recently used session is first. Of a drained Front the
// list is empty.
func (f *Front) idle(caller string, full bool) (list []*frontSession) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.ctx.Err() != nil {
		return nil
	}
	since := make(map[*frontSession]time.Time)
	for _, s := range f.sessions {
		if s.caller != caller && !(full && f.places.Yields(s.caller, caller)) {
			continue
		}
		s.mu.Lock()
		if s.uses == 0 && len(s.asked) == 0 && s.remote != "" && !s.tasks.Working() {
			list = append(list, s)
			since[s] = s.used
		}
		s.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b *frontSession) int {
		switch own := a.caller == caller; {
		case own == (b.caller == caller):
			return since[a].Compare(since[b])
		case own:
			return 1
		}
		return -1
	})
	return list
}

// yield ends an idle session, and enters next in its place, unless the other end says that the session is
// in use: by a task at work.
func (s *frontSession) yield(ctx context.Context, next *frontSession) bool {
	s.mu.Lock()
	link, remote := s.link, s.remote
	s.mu.Unlock()
	_, err := rpc.Call(ctx, link.Session, mcpmap.MethodRPCClose, mcpmap.IdleParams(s.target, remote))
	var failed *rpc.Error
	if err != nil && (!errors.As(err, &failed) || failed.Retryable) {
		return false
	}
	removed, entered := s.f.remove(s, next)
	if !removed { // something else has ended it by now
		return s.f.enter(next) == fair.Taken
	}
	s.cease()
	link.MCP.Leave(s.target, remote)
	return entered
}

// remove removes a session. next, if it is not nil, is entered in its place, but not in a drained Front.
func (f *Front) remove(s, next *frontSession) (removed, entered bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sessions[s.id] != s {
		return false, false
	}
	delete(f.sessions, s.id)
	if next == nil || f.closed || f.ctx.Err() != nil {
		f.places.Give(s.caller, 1)
		return true, false
	}
	f.places.Pass(s.caller, next.caller)
	f.sessions[next.id] = next
	return true, true
}

// session returns the session that a request is of, and keeps it from expiring until
// release. Another caller or target gets none.
func (f *Front) session(r *http.Request, target string) *frontSession {
	f.mu.Lock()
	s := f.sessions[r.Header.Get(mcpheader.Session)]
	f.mu.Unlock()
	if s == nil || s.caller != f.opts.Caller(r) || s.target != target {
		return nil
	}
	s.use()
	return s
}

func (s *frontSession) use() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses++
	s.expiry.Stop()
}

func (s *frontSession) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = time.Now()
	if s.uses--; s.uses == 0 && s.ctx.Err() == nil {
		s.expiry.Reset(s.f.opts.SessionIdle)
	}
}

func (s *frontSession) expire() {
	s.mu.Lock()
	used := s.uses > 0
	if !used && s.ctx.Err() == nil && s.tasks.Working() { // its client has a reason to come back
		s.expiry.Reset(s.f.opts.SessionIdle)
		used = true
	}
	s.mu.Unlock()
	if !used {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
		defer cancel()
		s.end(ctx)
	}
}

// drop ends the session on this side: calls are cancelled, streams end, the id is
// unknown from now on. Only the first caller gets true.
func (s *frontSession) drop() bool {
	removed, _ := s.f.remove(s, nil)
	if removed {
		s.cease()
	}
	return removed
}

// cease cancels and ends what a removed session has.
func (s *frontSession) cease() {
	s.cancel()
	s.mu.Lock()
	s.expiry.Stop()
	asked := s.asked
	s.asked = make(map[string]waiting)
	s.dropped = true
	s.discard(func(e entry) bool { return e.feed.reader == nil }) // the others are on their way
	s.held.Close()
	s.wake()
	s.mu.Unlock()
	for _, a := range asked {
		a.asked.Refuse(&profiles.Error{Code: profiles.Internal, Detail: "mcp_session", Text: "the client has left"})
	}
}

// end ends the session here and at the other end. That the latter fails is of no
// consequence: it ends the session by itself after a while.
func (s *frontSession) end(ctx context.Context) {
	s.mu.Lock()
	link, remote := s.link, s.remote
	s.mu.Unlock()
	if !s.drop() || remote == "" {
		return
	}
	_, _ = rpc.Call(ctx, link.Session, mcpmap.MethodRPCClose, mcpmap.SessionParams(s.target, remote))
	link.MCP.Leave(s.target, remote)
}

// gone ends the session because the other end knows of it no more.
func (s *frontSession) gone() {
	s.mu.Lock()
	link, remote := s.link, s.remote
	s.mu.Unlock()
	if s.drop() && remote != "" {
		link.MCP.Leave(s.target, remote)
	}
}

// way returns the link of the session. When the one before was lost, the session is
// taken to the new one.
func (s *frontSession) way(ctx context.Context) (link *Link, remote string, err error) {
	s.moving.Lock()
	defer s.moving.Unlock()
	link, err = s.f.opts.Connect(ctx, s.caller)
	if err != nil {
		return nil, "", err
	}
	s.mu.Lock()
	old, remote := s.link, s.remote
	s.mu.Unlock()
	if remote == "" {
		return nil, "", &profiles.Error{Code: profiles.Internal, Detail: "mcp_session", Text: "the session has not been opened yet"}
	}
	if link.Session == old.Session {
		return link, remote, nil
	}
	if err := link.MCP.Resume(ctx, s.target, remote, s.events()); err != nil {
		return nil, "", err
	}
	s.mu.Lock()
	s.link = link
	s.mu.Unlock()
	return link, remote, nil
}

// events hear what the server says on its own account.
func (s *frontSession) events() mcpmap.Events {
	return s.eventsOf(s.feeds[0]) // which is never another one
}

// eventsOf hear what belongs to a feed.
func (s *frontSession) eventsOf(fd *feed) mcpmap.Events {
	return mcpmap.Events{
		Notification: func(octets []byte) { s.tasks.See(octets); s.append(fd, octets) },
		Request:      func(a *mcpmap.Asked) { s.ask(fd, a) },
	}
}

// ask puts a request of the server to the client: on the stream that it belongs to
// if that is there or will be taken up again, else on the GET stream.
func (s *frontSession) ask(fd *feed, a *mcpmap.Asked) {
	key, now := mcpmap.TokenKey(a.Message.ID()), time.Now()
	s.mu.Lock()
	if len(s.asked) >= maxAsked {
		for k, w := range s.asked {
			if now.Sub(w.since) > askedTime {
				delete(s.asked, k)
			}
		}
	}
	_, taken := s.asked[key]
	full := len(s.asked) >= maxAsked || s.ctx.Err() != nil
	if !taken && !full {
		s.asked[key] = waiting{a, now}
	}
	if fd.reader == nil && !fd.told {
		fd = s.feeds[0]
	}
	s.mu.Unlock()
	switch {
	case taken:
		a.Refuse(&profiles.Error{Code: profiles.DuplicateMsgID, Text: "a request with this id waits for its answer"})
	case full:
		a.Refuse(profiles.Busy("mcp_asked", "the client has too many requests to answer"))
	case !s.append(fd, a.Message.Octets()):
		s.take(key)
		a.Refuse(profiles.Busy("mcp_pending", "the client is not there"))
	}
}

// take returns the request that an answer is for, which waits no more.
func (s *frontSession) take(key string) *mcpmap.Asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.asked[key]
	delete(s.asked, key)
	return w.asked
}

// pauses are those between attempts to listen.
var pauses = backoff.Exponential{First: 250 * time.Millisecond, Longest: 5 * time.Second}

// listen tells the other end, while r reads the GET stream, that somebody listens.
// That binds the session to the link it has now, also after another was lost.
func (s *frontSession) listen(ctx context.Context, r *reader) {
	for failures := 0; ; failures++ {
		err := s.listenOnce(ctx)
		var failed *rpc.Error
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, io.EOF): // it has ended, or an older listener was heard after this one
		case errors.As(err, &failed) && failed.Code != rpc.CodeUnknownMethod && !failed.Retryable:
			s.mu.Lock()
			mine := s.feeds[0].reader == r
			s.mu.Unlock()
			if mine {
				s.gone()
			}
			return
		case failed != nil && !failed.Retryable:
			return // it does without
		}
		if backoff.Wait(ctx, pauses.After(failures)) != nil {
			return
		}
	}
}

// listenOnce returns io.EOF when the session has ended at the other end, or another
// listener has taken its place.
func (s *frontSession) listenOnce(ctx context.Context) error {
	link, remote, err := s.way(ctx)
	if err != nil {
		return err
	}
	stream, err := rpc.Open(ctx, link.Session, mcpmap.MethodRPCListen, mcpmap.SessionParams(s.target, remote))
	if err != nil {
		return err
	}
	defer stream.Close()
	_, err = stream.Recv(ctx)
	return err
}

// Review ends the sessions of the callers that refuse refuses.
func (f *Front) Review(refuse func(caller string) error) {
	f.mu.Lock()
	var gone []*frontSession
	for _, s := range f.sessions {
		if refuse(s.caller) != nil {
			gone = append(gone, s)
		}
	}
	f.mu.Unlock()
	for _, s := range gone {
		s.drop()
	}
}
