package conformance

import (
	"bytes"
	"context"
	"fmt"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// asking is a session on which the application asks one question. What it makes
// of the answer is the verdict of that answer.
type asking struct {
	profiles.Session
	s     *stage
	call  *call
	msgID []byte
}

// Call makes the call known before its answer can come.
func (a *asking) Call(ctx context.Context, env e1.Envelope) (profiles.Call, error) {
	c, err := a.Session.Call(ctx, env)
	if err != nil {
		return nil, err
	}
	a.msgID = bytes.Clone(c.MsgID())
	a.call = a.s.called(a.msgID)
	return c, nil
}

// asks has the application ask the peer of a connection something, in the
// background. The error of ask is what it makes of the answer.
func (s *stage) asks(conn string, ask func(ctx context.Context, on profiles.Session) error) error {
	session := s.sessions[conn]
	if session == nil {
		return fmt.Errorf("there is no connection %q", conn)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	s.onClose(func() { cancel(); <-done })
	go func() {
		defer close(done)
		a := &asking{Session: session, s: s}
		err := ask(ctx, a)
		if a.call != nil {
			s.judged(a.call, err)
			s.over(a.msgID)
		}
	}()
	return nil
}
