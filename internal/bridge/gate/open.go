package gate

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// ErrEnded is the cause of the end of the context of a request whose caller is no longer
// let in: its token or certificate has expired or is no longer listed, or see Review.
var ErrEnded = errors.New("gate: this caller is not let in any more")

// request is an open request.
type request struct {
	caller  string // its name
	shown   proof
	cancel  context.CancelCauseFunc
	control *http.ResponseController
}

// lastWrite is the time limit of the last write to a client after the end of its request.
const lastWrite = time.Second

// end ends the request: its context, reads of its body, and soon writes. Its handler is
// still running.
func (r *request) end() {
	r.cancel(ErrEnded)
	_ = r.control.SetReadDeadline(time.Now()) // where there is one
	_ = r.control.SetWriteDeadline(time.Now().Add(lastWrite))
}

// expire ends the request, if it is open.
func (g *Gate) expire(r *request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, open := g.open[r]; open {
		r.end()
	}
}

func (g *Gate) enter(r *request, calls int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls[r.caller] >= calls {
		return false
	}
	g.calls[r.caller]++
	g.open[r] = struct{}{}
	return true
}

func (g *Gate) leave(r *request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, r)
	if g.calls[r.caller]--; g.calls[r.caller] == 0 {
		delete(g.calls, r.caller)
	}
}

// Review ends the requests that would not be let in now: by the Options, or because refuse
// returns an error for the identity of their caller. It returns how many it has ended.
func (g *Gate) Review(refuse func(identity string) error) (ended int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	rules := g.rules.Load()
	for r := range g.open {
		if r.review(rules, refuse) {
			ended++
		}
	}
	return ended
}

// review ends the request if it would not be let in now.
func (r *request) review(rules *rules, refuse func(identity string) error) (ended bool) {
	name, _, err := rules.caller(&r.shown)
	if err == nil && name == r.caller && (refuse == nil || refuse(Prefix+name) == nil) {
		return false
	}
	r.end()
	return true
}

// answer is a ResponseWriter that knows whether the response has begun.
type answer struct {
	http.ResponseWriter
	begun bool
}

func (a *answer) WriteHeader(status int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(octets []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(octets)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
