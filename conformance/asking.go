package conformance

import (
	"bytes"
	"context"
	"fmt"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// asking is a session on which the application makes one request. Its result is the verdict
// on the answer.
type asking struct {
	profiles.Session
	s     *stage
	call  *call
	msgID []byte
	asked chan struct{} // closed when the request is sent and registered
}

// Call registers the call before the script continues, and so before the answer.
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

// asks makes a request of the application to the peer of a connection. It returns when the
// request is sent. A later error of ask is the verdict on the answer.
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
