package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// maxLine is the longest message that Stdio reads, in octets.
const maxLine = 8 << 20

// maxCalls is how many calls Stdio has in flight at once; more are refused.
const maxCalls = 512

// StdioOptions configure Stdio.
type StdioOptions struct {
	Target string    // name of the server, or empty for the peer's default
	In     io.Reader // what the MCP client writes
	Out    io.Writer // what the MCP client reads

	// Drain is how long after the end of In calls in flight may go without a
	// message before they are given up. Default 10 s.
	Drain time.Duration

	// Complain is told of what the MCP client cannot be told. Nil: nobody is.
	Complain func(string)
}

// Stdio is a local MCP server that is really the remote one: it reads messages
// from In, one a line, and writes what comes back to Out, octet for octet and in
// both eras. It returns nil when In has ended and every call was answered, else
// what ended the connection or Out.
func (c *Client) Stdio(ctx context.Context, o StdioOptions) error {
	if err := c.CheckTarget(ctx, o.Target); err != nil {
		return err
	}
	if o.Drain == 0 {
		o.Drain = 10 * time.Second
	}
	if o.Complain == nil {
		o.Complain = func(string) {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(c.Context(), func() { cancel(c.Explain(context.Cause(c.Context()))) })
	defer stop()
	s := &stdio{
		c: c, mcp: c.MCP(), opts: o, cancel: cancel,
		slots: make(chan struct{}, maxCalls), asked: make(map[string]*mcpmap.Asked), heard: make(chan struct{}, 1),
	}
	lines := s.read(ctx)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				return s.drain(ctx)
			}
			s.line(ctx, line)
		case <-ctx.Done():
			s.calls.Wait() // each writes its failure
			return context.Cause(ctx)
		}
	}
}

// stdio is one run of Stdio.
type stdio struct {
	c      *Client
	mcp    *mcpmap.Client
	opts   StdioOptions
	cancel context.CancelCauseFunc
	calls  sync.WaitGroup
	slots  chan struct{} // one for each call in flight
	heard  chan struct{} // a message came: draining may take longer

	mu        sync.Mutex
	session   string                   // legacy
	asked     map[string]*mcpmap.Asked // requests of the server that wait for the client, by key of their id
	listening []context.CancelFunc     // calls that never end by themselves

	out sync.Mutex
	buf []byte
}

// read reads lines in the background: whoever waits for one can be interrupted,
// a read of standard input cannot. The line is the receiver's.
func (s *stdio) read(ctx context.Context) <-chan []byte {
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		r := bufio.NewReaderSize(s.opts.In, 64<<10)
		for {
			line, err := readLine(r)
			if line = bytes.TrimSuffix(line, []byte("\n")); len(bytes.TrimSpace(line)) > 0 {
				select {
				case lines <- line:
				case <-ctx.Done():
					return
				}
			}
			switch {
			case errors.Is(err, bufio.ErrTooLong):
				s.refuse(nil, &profiles.Error{Code: profiles.InvalidEnvelope, Detail: profiles.PayloadTooLarge.String(), Text: fmt.Sprintf("line longer than %d octets", maxLine)})
			case err != nil:
				return
			}
		}
	}()
	return lines
}

// readLine returns the next line, in memory of its own. Of one that is too long
// nothing is returned and all is skipped.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for long := false; ; {
		part, err := r.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxLine; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case long && err == nil:
			return nil, bufio.ErrTooLong
		default:
			return line, err
		}
	}
}

// line handles one message of the client, in the order in which they came.
func (s *stdio) line(ctx context.Context, octets []byte) {
	var m mcpmap.Message
	if err := m.Scan(octets); err != nil {
		s.refuse(m.ID(), err)
		return
	}
	switch m.Kind() {
	case mcpmap.Request:
		s.request(ctx, &m, octets)
	case mcpmap.Response:
		s.response(&m, octets)
	default:
		if err := s.mcp.Notify(ctx, s.opts.Target, s.sessionOf(&m), octets); err != nil {
			s.opts.Complain("notification not sent: " + err.Error())
		}
	}
}

// sessionOf returns the session that a message belongs to: a modern request
// stands alone.
func (s *stdio) sessionOf(m *mcpmap.Message) string {
	if m.Kind() == mcpmap.Request && (m.Modern() || m.Is(mcpmap.MethodInitialize)) {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}

// request starts a call and returns once it is on its way, so that what the
// client writes next comes after it.
func (s *stdio) request(ctx context.Context, m *mcpmap.Message, octets []byte) {
	select {
	case s.slots <- struct{}{}:
	default: // to wait would keep the client from cancelling what it waits for
		s.refuse(m.ID(), profiles.Busy("mcp_calls", "too many calls in flight"))
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	if m.Is(mcpmap.MethodListen) {
		s.mu.Lock()
		s.listening = append(s.listening, cancel)
		s.mu.Unlock()
	}
	call := &mcpmap.Call{Target: s.opts.Target, Session: s.sessionOf(m), Octets: octets}
	call.Events = mcpmap.Events{Notification: s.write, Request: s.ask}
	sent := make(chan struct{})
	var once sync.Once
	call.Sent = func() { once.Do(func() { close(sent) }) }
	id := m.ID()
	s.calls.Go(func() {
		defer func() { <-s.slots }()
		defer cancel()
		defer call.Sent()
		result, err := s.mcp.Do(ctx, call)
		switch {
		case errors.Is(err, mcpmap.ErrCancelled): // who cancels wants no answer
		case err != nil:
			s.refuse(id, err)
		default:
			if result.Session != "" {
				s.mu.Lock()
				s.session = result.Session
				s.mu.Unlock()
			}
			s.write(result.Octets)
		}
	})
	<-sent
}

// ask passes a request of the server to the client.
func (s *stdio) ask(a *mcpmap.Asked) {
	key := mcpmap.TokenKey(a.Message.ID())
	s.mu.Lock()
	_, taken := s.asked[key]
	full := len(s.asked) >= maxCalls
	if !taken && !full {
		s.asked[key] = a
	}
	s.mu.Unlock()
	switch {
	case taken:
		a.Refuse(&profiles.Error{Code: profiles.DuplicateMsgID, Text: "a request with this id waits for its answer"})
	case full:
		a.Refuse(profiles.Busy("mcp_asked", "the client has too many requests to answer"))
	default:
		s.write(a.Message.Octets())
	}
}

// response passes the client's answer to the request that it belongs to.
func (s *stdio) response(m *mcpmap.Message, octets []byte) {
	key := mcpmap.TokenKey(m.ID())
	s.mu.Lock()
	a := s.asked[key]
	delete(s.asked, key)
	s.mu.Unlock()
	if a == nil {
		s.opts.Complain("an answer of the client matches no request of the server")
		return
	}
	if err := a.Answer(octets); err != nil {
		s.opts.Complain("answer of the client not sent: " + err.Error())
		a.Refuse(profiles.AsError(err))
	}
}

// refuse answers a request, or a line that is none, with a JSON-RPC error.
func (s *stdio) refuse(id []byte, err error) {
	s.write(mcpmap.AppendFailure(nil, id, err))
}

// write writes one message as one line. A raw line break can only stand between
// tokens; there it becomes a space.
func (s *stdio) write(octets []byte) {
	select {
	case s.heard <- struct{}{}:
	default:
	}
	s.out.Lock()
	defer s.out.Unlock()
	s.buf = append(s.buf[:0], octets...)
	for i, b := range s.buf {
		if b == '\n' || b == '\r' {
			s.buf[i] = ' '
		}
	}
	s.buf = append(s.buf, '\n')
	if _, err := s.opts.Out.Write(s.buf); err != nil {
		s.cancel(fmt.Errorf("client: nobody reads the answers: %w", err))
	}
	if cap(s.buf) > 1<<20 {
		s.buf = nil
	}
}

// drain waits for the answers to what was sent, then ends the session.
func (s *stdio) drain(ctx context.Context) error {
	s.mu.Lock()
	for _, cancel := range s.listening {
		cancel()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.calls.Wait()
		close(done)
	}()
	quiet := time.NewTimer(s.opts.Drain)
	defer quiet.Stop()
	for {
		select {
		case <-done:
			ending, cancel := context.WithTimeout(ctx, s.opts.Drain)
			defer cancel()
			s.c.closeSession(ending, s.opts.Target, s.session)
			return context.Cause(ctx)
		case <-s.heard:
			quiet.Reset(s.opts.Drain)
		case <-quiet.C:
			s.cancel(fmt.Errorf("client: calls in flight given up: no message for %v after the end of input", s.opts.Drain))
			<-done
			return context.Cause(ctx)
		}
	}
}
