package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

// Known is what the peer is known to serve. It is the same as long as the session lives.
func (s *Session) Known() *profiles.Known { return &s.known }

// Session is the session that has the lane.
func (l *lane) Session() profiles.Session { return l.s }

// Known belongs to the session.
func (l *lane) Known() *profiles.Known { return l.s.Known() }

// askTime bounds how long a peer has to say what it serves.
const askTime = 10 * time.Second

// refrain returns the *Error for a message that must not be sent, because the peer is not
// known to serve its profile. A caller that can wait asks the peer first, see Options.Ask.
// The error path has a separate switch.
func (s *Session) refrain(ctx context.Context, profile uint64, p patience) error {
	if !s.opts.Reserved || profile == ErrorProfile || s.known.Serves(profile) || profiles.IsProbe(ctx) {
		return nil
	}
	if p == waits && s.opts.Ask != nil {
		s.ask(ctx)
	}
	if s.known.Serves(profile) {
		return nil
	}
	name := fmt.Sprint(profile)
	if known, ok := s.opts.Registry.Lookup(profile); ok {
		name = known.Name
	}
	return profiles.Unserved(name)
}

// ask has the peer say what it serves, unless it has been asked. One goroutine at a time
// does it; the others wait for that.
func (s *Session) ask(ctx context.Context) {
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return
	}
	if s.asked {
		return
	}
	ask, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s.asked = s.opts.Ask(ask, s) || ctx.Err() == nil && ask.Err() != nil // it does not answer
}

// ends are the ends of a connection without a code: close_notify, none, a reset of TCP.
var ends = []error{ErrEnded, ErrNoAnswer, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE}

// OverProfile reports whether err is how a connection ends whose peer does not serve the
// profile of a message. It may have ended for other reasons in the same way.
func OverProfile(err error) bool {
	closed, fault := (*transport.CloseError)(nil), (*profiles.Error)(nil)
	switch {
	case errors.As(err, &closed):
		return closed.Remote && (closed.Code == 0 || closed.Code == uint64(profiles.UnknownProfile))
	case errors.As(err, &fault):
		return fault.Code == profiles.UnknownProfile
	}
	return slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) })
}
