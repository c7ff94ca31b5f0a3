package mcpmap

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// overtaken is the connection of a client whose session ends while a message is sent.
type overtaken struct {
	profiles.Session
	end func()
	err error // of the sending
}

func (o *overtaken) Context() context.Context { return context.Background() }

func (o *overtaken) Call(context.Context, e1.Envelope) (profiles.Call, error) {
	o.end()
	return unanswered{}, o.err
}

type unanswered struct{ profiles.Call }

func (unanswered) Recv(ctx context.Context) (*e1.Envelope, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (unanswered) Close() {}

// A question whose session ends while it is sent is answered once, whether it was sent or
// not, and so is one that waits behind it.
func TestAQuestionIsAnsweredOnceAlthoughItsSessionEnds(t *testing.T) {
	for name, err := range map[string]error{"sent": nil, "not sent": errors.New("no way")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &serverSession{m: New(Options{}), id: "s", target: "t"}
				s.ctx, s.cancel = context.WithCancel(t.Context())
				s.home = &conn{m: s.m, sess: &overtaken{end: s.close, err: err}, current: make(map[string]*serverSession)}
				var question Message
				if err := question.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)); err != nil {
					t.Fatal(err)
				}
				var answers [2]atomic.Int32
				s.mu.Lock()
				for i := range answers {
					s.due = append(s.due, message{kind: Request, octets: question.Octets(), answer: func([]byte) { answers[i].Add(1) }})
				}
				s.startPump()
				s.mu.Unlock()
				synctest.Wait()
				for i := range answers {
					if n := answers[i].Load(); n != 1 {
						t.Errorf("question %d is answered %d times, want once", i, n)
					}
				}
			})
		})
	}
}
