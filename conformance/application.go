package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/vectors"
)

// application is the application behind the endpoint under test: it holds requests that the
// script answers, sends these answers, opens exchanges of its own, and records what it
// received.
type application struct {
	s        *stage
	scripted bool // the script has App steps, for which requests wait

	// opens starts an exchange of the application on a connection, if the message is one
	// that starts an exchange. Set during construction; may be nil.
	opens func(ctx context.Context, conn string, env *e1.Envelope) (opened bool, err error)

	mu     sync.Mutex
	held   []heldExchange
	closed bool
	left   int // requests that the script left unanswered

	// Guarded by mu of the stage.
	told  [][]byte
	taken int
}

// heldExchange is a request that waits for its answer.
type heldExchange struct {
	takes  func(conn string, answer *e1.Envelope) bool // reports whether an answer belongs to the exchange
	answer func(answer *e1.Envelope) (terminal bool, err error)
	drop   func() // ends the exchange without an answer

	// waits reports whether the peer waits for the answer, so that a script without an
	// answer is wrong. Nil means no.
	waits func() bool
}

func newApplication(s *stage) *application {
	a := &application{s: s}
	for _, st := range s.in.Steps {
		a.scripted = a.scripted || st.Dir == vectors.App
	}
	return a
}

// hold holds an exchange until the script ends it. Without a script, or after its end, it
// ends at once: the stage closes the application then.
func (a *application) hold(x heldExchange) {
	a.mu.Lock()
	closed := a.closed
	if closed {
		a.leave(x)
	} else {
		a.held = append(a.held, x)
	}
	a.mu.Unlock()
	if closed {
		x.drop()
		return
	}
	a.s.change(func() {})
}

// send sends the message of a frame. The message opens an exchange, or belongs to the first
// exchange that accepts it, which may not have reached the application yet.
func (a *application) send(ctx context.Context, conn string, octets []byte) error {
	env, err := decode(octets)
	if err != nil {
		return fmt.Errorf("what the application is to say: %w", err)
	}
	if a.opens != nil {
		if opened, err := a.opens(ctx, conn, env); opened || err != nil {
			return err
		}
	}
	var x heldExchange
	if err := a.s.await(ctx, func() (found bool) { x, found = a.take(conn, env); return found }); err != nil {
		return fmt.Errorf("the application was not asked what it is to answer: %.64q", env.Payload)
	}
	terminal, err := x.answer(env)
	if err != nil {
		return fmt.Errorf("the application cannot say it: %w", err)
	}
	if !terminal {
		a.hold(x)
	}
	return nil
}

func (a *application) take(conn string, env *e1.Envelope) (heldExchange, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.held, func(x heldExchange) bool { return x.takes(conn, env) })
	if i < 0 {
		return heldExchange{}, false
	}
	x := a.held[i]
	a.held = slices.Delete(a.held, i, i+1)
	return x, true
}

// letGo ends all held and all later exchanges.
func (a *application) letGo() {
	a.mu.Lock()
	held := a.held
	a.held, a.closed = nil, true
	for _, x := range held {
		a.leave(x)
	}
	a.mu.Unlock()
	for _, x := range held {
		x.drop()
	}
}

// over reports whether the script has ended.
func (a *application) over() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

// stops calls f if ctx ends before the script has ended or has answered: the exchange was
// then ended from outside. Call the returned function after the answer.
func (a *application) stops(ctx context.Context, f func()) (answered func()) {
	stop := context.AfterFunc(ctx, func() {
		a.mu.Lock()
		closed := a.closed
		a.mu.Unlock()
		if !closed {
			f()
		}
	})
	return func() { stop() }
}

// leave counts an unanswered exchange. The caller holds mu.
func (a *application) leave(x heldExchange) {
	if x.waits != nil && x.waits() {
		a.left++
	}
}

// record records a message that the application received.
func (a *application) record(profileID, msgType uint64, payload []byte) {
	env := e1.Envelope{Version: e1.Version, ProfileID: profileID, MsgType: msgType, Payload: payload}
	octets := frame.Append(nil, env.Append(nil))
	a.s.change(func() { a.told = append(a.told, octets) })
}

// hears waits for the next recorded message and removes it.
func (a *application) hears(ctx context.Context) []byte {
	err := a.s.await(ctx, func() bool { return a.taken < len(a.told) })
	if err != nil {
		return nil
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.taken++
	return a.told[a.taken-1]
}
