package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcpclient"
	"github.com/slimwire/swp/profiles"
)

// maxLine is the longest message that Stdio reads, in octets.
const maxLine = 8 << 20

// StdioOptions configure Stdio. Peer, In and Out are required.
type StdioOptions struct {
	Peer   *Kept
	Target string    // name of the server, or empty for the peer's default
	In     io.Reader // what the MCP client writes
	Out    io.Writer // what the MCP client reads

	// Drain is how long after the end of In calls in flight may go without a
	// message before they are given up. Default 10 s.
	Drain time.Duration

	// Complain gets errors that cannot be sent to the MCP client. It may be
	// nil.
	Complain func(string)
}

// Stdio is a local MCP server that is really the remote one: it reads messages
// from In, one a line, and writes what comes back to Out, octet for octet and in
// both eras. Connections come and go behind it, see package mcpclient.
//
// It returns nil when In has ended and every call was answered; what kept the peer from
// being reached at first; or why Out is of no more use.
func Stdio(ctx context.Context, o StdioOptions) error {
	o.Drain = cmp.Or(o.Drain, 10*time.Second)
	first, err := o.Peer.Get(ctx)
	if err == nil {
		err = first.CheckTarget(ctx, o.Target)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &stdio{opts: o, cancel: cancel}
	s.talk = mcpclient.New(ctx, mcpclient.Options{Peer: o.Peer, Target: o.Target, Write: s.write, Complain: o.Complain})
	defer s.talk.Close()
	for lines := s.read(ctx); ; {
		select {
		case line, ok := <-lines:
			if !ok {
				return s.drain(ctx)
			}
			line.pass(s.talk)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stdio is one run of Stdio.
type stdio struct {
	opts   StdioOptions
	talk   *mcpclient.Conversation
	cancel context.CancelCauseFunc
	quiet  atomic.Pointer[time.Timer] // while it drains: until calls are given up
	buf    []byte
}

// line is what was read.
type line struct {
	octets []byte
	err    error
}

// pass passes a line on.
func (l line) pass(to *mcpclient.Conversation) {
	if l.err != nil {
		to.Refuse(l.err)
		return
	}
	to.Send(l.octets)
}

// read reads lines in the background: whoever waits for one can be interrupted,
// a read of standard input cannot. The line is the receiver's.
func (s *stdio) read(ctx context.Context) <-chan line {
	lines := make(chan line)
	go func() {
		defer close(lines)
		r := bufio.NewReaderSize(s.opts.In, 64<<10)
		for {
			octets, err := readLine(r)
			octets = bytes.TrimSuffix(octets, []byte("\n"))
			next := line{octets: octets}
			if errors.Is(err, bufio.ErrTooLong) {
				next.err = &profiles.Error{Code: profiles.InvalidEnvelope, Detail: profiles.PayloadTooLarge.String(), Text: fmt.Sprintf("line longer than %d octets", maxLine)}
				err = nil
			}
			if next.err != nil || len(bytes.TrimSpace(octets)) > 0 {
				select {
				case lines <- next:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

// readLine returns the next line, a copy. Of one that is too long nothing is
// returned and all is skipped.
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

// write writes one message as one line. A raw line break can only stand between
// tokens; there it becomes a space.
func (s *stdio) write(octets []byte) {
	if quiet := s.quiet.Load(); quiet != nil {
		quiet.Reset(s.opts.Drain)
	}
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

// drain waits for outstanding answers, then ends the session.
func (s *stdio) drain(ctx context.Context) error {
	quiet := time.AfterFunc(s.opts.Drain, func() {
		s.cancel(fmt.Errorf("client: calls in flight given up: no message for %v after the end of input", s.opts.Drain))
	})
	s.quiet.Store(quiet)
	s.talk.Drain(ctx)
	s.quiet.Store(nil)
	quiet.Stop()
	return context.Cause(ctx)
}
