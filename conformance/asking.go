package conformance

import (
	"bytes"
	"context"
	"fmt"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// asking is a session on which the application asks one question. Its result is
// the verdict of that answer.
type asking struct {
	profiles.Session
	s     *stage
	call  *call
	msgID []byte
	asked chan struct{} // closed when the question is on its way and known
}

// Call makes the call known before the script goes on, and so before its answer.
func (a *asking) Call(ctx context.Context, env e1.Envelope) (profiles.Call, error) {
	defer close(a.asked)
	c, err := a.Session.Call(ctx, env)
	if err != nil {
		return nil, err
	}
	a.msgID = bytes.Clone(c.MsgID())
	a.call = a.s.called(a.msgID)
	return c, nil
}

// asks has the application ask the peer of a connection something. It returns when
// the question is on its way. The error of ask, later, is what it makes of the answer.
func (s *stage) asks(conn string, ask func(ctx context.Context, on profiles.Session) error) error {
	session := s.sessions[conn]
	if session == nil {
		return fmt.Errorf("there is no connection %q", conn)
	}
	done := make(chan struct{})
	a := &asking{Session: session, s: s, asked: make(chan struct{})}
	s.tasks.Go(func() {
		defer close(done)
		err := ask(s.ctx, a)
		if a.call != nil {
			s.judged(a.call, err)
			s.over(a.msgID)
		}
	})
	select {
	case <-a.asked:
	case <-done:
	}
	return nil
}
