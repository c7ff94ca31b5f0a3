package mcphttp

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcpheader"
	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// Bounds of the messages queued in a session.
const (
	maxQueuedMessages = 1024
	maxQueuedOctets   = 16 << 20
)

// maxSessionID bounds the Mcp-Session-Id of a server, in octets.
const maxSessionID = 1 << 10

// backSession is a session of the legacy era: one client, one session of the server.
// It implements mcpmap.Conversation.
//
// Messages of the client are sent in order: the next one when the server has taken
// the last one, that is, when a request is written, or initialize is answered.
type backSession struct {
	b      *Backend
	client mcpmap.Counterpart
	ctx    context.Context
	cancel context.CancelCauseFunc
	quiet  *time.Timer
	asks   atomic.Int32 // requests of the server that the client has not answered

	mu      sync.Mutex
	id      string // of the server's session; "" if it has none
	version string // that initialize agreed on
	gone    bool   // the server has ended it
	closed  bool
	hears   bool // the GET stream was opened
	queue   []letter
	octets  int // in queue
	running bool
	calls   map[*backCall]struct{} // not over
}

// letter is a message to the server: a request if it has a call.
type letter struct {
	octets []byte
	call   *backCall
	sent   func() // called once the server has it, or will not get it; or nil
}

func newBackSession(b *Backend, client mcpmap.Counterpart) *backSession {
	s := &backSession{b: b, client: client, calls: make(map[*backCall]struct{})}
	s.ctx, s.cancel = context.WithCancelCause(b.ctx)
	s.quiet = time.AfterFunc(b.opts.SessionIdle, s.expire)
	return s
}

// Do implements mcpmap.Conversation.
func (s *backSession) Do(x *mcpmap.Exchange) {
	s.heard()
	c, fault := s.b.begin(x, s)
	if fault != nil {
		x.Fail(fault)
		return
	}
	s.mu.Lock()
	s.calls[c] = struct{}{}
	s.mu.Unlock()
	if !s.push(letter{octets: c.msg.Octets(), call: c}) {
		c.fail(profiles.Busy("mcp_waiting", "too many messages wait for this server"))
		s.ended(c)
		return
	}
	x.OnCancel(func(octets []byte) { s.cancelled(c, octets) })
}

// Notify implements mcpmap.Conversation.
func (s *backSession) Notify(m *mcpmap.Message) {
	s.heard()
	l := letter{octets: bytes.Clone(m.Octets())}
	if m.Is("notifications/initialized") {
		l.sent = s.hear
	}
	s.post(l)
}

// Close implements mcpmap.Conversation.
func (s *backSession) Close() {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.quiet.Stop()
	s.mu.Unlock()
	if !first {
		return
	}
	s.cancel(errSessionOver)
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	delete(s.b.sessions, s)
	if !s.b.over {
		s.b.work.Go(s.depart)
	}
	s.b.closeIfIdle()
}

// depart takes leave of the server.
func (s *backSession) depart() {
	s.mu.Lock()
	id, version, gone := s.id, s.version, s.gone
	s.mu.Unlock()
	if id != "" && !gone {
		s.b.leave(id, version)
	}
}

// heard puts off the end of a session that nobody uses.
func (s *backSession) heard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.quiet.Reset(s.b.opts.SessionIdle)
	}
}

// expire ends a session that nobody uses.
func (s *backSession) expire() {
	s.mu.Lock()
	busy := len(s.calls) > 0
	s.mu.Unlock()
	if busy {
		s.heard()
		return
	}
	s.client.Ended()
}

// lost is called when the server says that it does not know the session.
func (s *backSession) lost() {
	s.mu.Lock()
	known := s.id != ""
	s.gone = s.gone || known
	s.mu.Unlock()
	if known {
		s.client.Ended()
	}
}

// known says whether the server has given the session an id.
func (s *backSession) known() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id != ""
}

// post queues a message that is not a request. If there is no room, it is
// dropped.
func (s *backSession) post(l letter) {
	if !s.push(l) {
		s.b.stats.dropped.Add(1)
	}
}

func (s *backSession) push(l letter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(l.octets)
	if s.closed || len(s.queue) >= maxQueuedMessages || len(s.queue) > 0 && s.octets+n > maxQueuedOctets {
		return false
	}
	if !s.running && !s.b.spawn(s.run) {
		return false
	}
	s.running = true
	s.queue = append(s.queue, l)
	s.octets += n
	return true
}

// run sends what is queued.
func (s *backSession) run() {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.running, s.queue = false, nil
			s.mu.Unlock()
			return
		}
		l := s.queue[0]
		s.queue[0] = letter{}
		s.queue = s.queue[1:]
		s.octets -= len(l.octets)
		s.mu.Unlock()
		s.send(&l)
	}
}

func (s *backSession) send(l *letter) {
	switch {
	case l.call == nil:
		s.postLetter(l)
	case !l.call.claim() || l.call.ctx.Err() != nil:
		l.call.fail(errGone) // or why else its context has ended
		s.ended(l.call)
	case l.call.x.Initialize():
		l.call.run(nil)
		s.ended(l.call)
	default:
		written := make(chan struct{})
		var once sync.Once
		wrote := func() { once.Do(func() { close(written) }) }
		s.b.work.Go(func() { // this goroutine is work, too
			l.call.run(wrote)
			wrote()
			s.ended(l.call)
		})
		<-written
	}
}

// postLetter posts a notification, or an answer of the client.
func (s *backSession) postLetter(l *letter) {
	if l.sent != nil {
		defer l.sent()
	}
	ctx, cancel := context.WithTimeoutCause(s.ctx, s.b.opts.Brief, fmt.Errorf("%w: %v", errQuiet, s.b.opts.Brief))
	defer cancel()
	status, err := s.postOctets(ctx, l.octets)
	switch {
	case err == nil && status >= 200 && status <= 299:
		return
	case err == nil && status == http.StatusNotFound:
		s.lost()
	}
	s.b.stats.dropped.Add(1)
	if err == nil {
		err = statusFault(status)
	}
	if s.ctx.Err() == nil {
		s.b.trouble(err)
	}
}

func (s *backSession) postOctets(ctx context.Context, octets []byte) (status int, err error) {
	h, err := s.b.posted()
	if err != nil {
		return 0, err
	}
	s.mark(h)
	r, err := s.b.brief.Post(ctx, s.b.opts.URL, h, octets)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return r.Status, nil
}

// mark sets the headers that tell the server which session a request is of.
func (s *backSession) mark(h http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id != "" {
		h.Set(mcpheader.Session, s.id)
	}
	if s.version != "" {
		h.Set(mcpheader.Version, s.version)
	}
}

// opened takes the id of a session from the response to initialize.
func (s *backSession) opened(c *backCall, h http.Header) error {
	id := h.Get(mcpheader.Session)
	if id == "" || !c.x.Initialize() {
		return nil
	}
	if !visible(id) || len(id) > maxSessionID {
		return fmt.Errorf("%w: an %s of %d octets, or with others than visible ones", upstream.ErrBroken, mcpheader.Session, len(id))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == "" {
		s.id = id
	}
	return nil
}

// agreed notes the version that the answer to initialize names.
func (s *backSession) agreed(result []byte) {
	versions := mcpmap.InitializedVersions(result)
	if len(versions) == 0 || len(versions[0]) > maxVersion || !visible(versions[0]) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = versions[0]
}

// maxVersion bounds the version of a protocol, in octets.
const maxVersion = 64

// cancelled gives a request up: octets is the client's cancellation, or nil if the
// client is gone or the time is up, when one is written in its place. One that was
// not sent yet is not cancelled, and initialize never is.
func (s *backSession) cancelled(c *backCall, octets []byte) {
	if c.claim() || c.x.Initialize() {
		c.stop(errGone)
		return
	}
	if octets == nil {
		octets = mcpmap.AppendCancelled(nil, c.msg.ID())
	}
	l := letter{octets: bytes.Clone(octets), sent: func() { c.stop(errGone) }}
	if !s.push(l) {
		s.b.stats.dropped.Add(1)
		c.stop(errGone)
	}
}

// ended is called once a call is over.
func (s *backSession) ended(c *backCall) {
	s.mu.Lock()
	delete(s.calls, c)
	s.mu.Unlock()
	c.end()
}

// progressing returns the call that has a progress token, or else def.
func (s *backSession) progressing(token string, def *backCall) *backCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.calls {
		if c.progress == token {
			return c
		}
	}
	return def
}

// ask passes a question of the server to the client. x is the exchange that it
// belongs to, or nil.
func (s *backSession) ask(x *mcpmap.Exchange, m *mcpmap.Message) {
	s.asks.Add(1)
	s.client.Request(x, m, func(octets []byte) {
		s.asks.Add(-1)
		s.mu.Lock()
		for c := range s.calls {
			c.heard() // the server has had nothing to go on until now
		}
		s.mu.Unlock()
		s.post(letter{octets: bytes.Clone(octets)})
	})
}
