package sdlfront_test

import (
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/internal/bridge/sdlfront"
)

func TestAStreamIsAnsweredOnceTheAnswerIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{wait: make(chan struct{})}
		conn := stream(t, serving(t, e, sdlfront.Options{}))
		synctest.Wait()
		answered := func() bool {
			synctest.Wait()
			select {
			case <-e.to.Answered():
				return true
			default:
				return false
			}
		}
		if !answered() {
			t.Error("an answer is due before an envelope came")
		}
		send(t, conn, framed(of(100)))
		if answered() {
			t.Error("answered before the endpoint has")
		}
		due := e.to.Answered()
		close(e.wait)
		if answered() { // nobody reads the answer
			t.Error("answered before the program has the answer")
		}
		receive(t, conn)
		if !answered() {
			t.Error("not answered")
		}
		<-due
	})
}
