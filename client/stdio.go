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
	In     io.Reader // output of the MCP client
	Out    io.Writer // input of the MCP client

	// Drain is how long calls in flight may continue without a message after the end of In.
	// Then they are cancelled. Default 10 s.
	Drain time.Duration

	// Complain is called with errors that cannot be sent to the MCP client. It may be nil.
	Complain func(string)
}

// Stdio serves a remote MCP server on In and Out: it reads messages from In, one per line,
// and writes the answers to Out, unchanged and in both eras. Package mcpclient replaces
// lost connections.
//
// It returns nil when In has ended and every call was answered. It fails if the peer cannot
// be reached at first, or if Out cannot be written.
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
	quiet  atomic.Pointer[time.Timer] // during a drain: time until calls are cancelled
	buf    []byte
}

// line is one line of input.
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

// read reads lines in the background, because a read of standard input cannot be
// interrupted. The receiver owns the line.
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

// readLine returns a copy of the next line. A line that is too long is skipped.
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

// write writes one message as one line. A raw line break in JSON can only be between
// tokens, where it is replaced by a space.
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
		s.cancel(fmt.Errorf("client: the answers cannot be written: %w", err))
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
