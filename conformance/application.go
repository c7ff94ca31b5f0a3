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

// application is what runs behind the endpoint: it keeps requests open where
// the input has something for it to say, and says it; it opens exchanges of its
// own; and it remembers what it was told.
type application struct {
	s        *stage
	scripted bool // there are App steps: requests wait for them

	// opens begins an exchange of the application's own side on a connection, if
	// that is what a message does. Set while the stage is built; may be nil.
	opens func(ctx context.Context, conn string, env *e1.Envelope) (opened bool, err error)

	mu     sync.Mutex
	held   []exchange
	closed bool
	left   int // requests that the script did not answer

	// Guarded by the stage's mu.
	told  [][]byte
	taken int
}

// exchange is a request that waits for its answer.
type exchange struct {
	takes  func(conn string, answer *e1.Envelope) bool // says whether an answer belongs to it
	answer func(answer *e1.Envelope) (terminal bool, err error)
	drop   func() // ends it without an answer

	// waits reports whether somebody waits for the answer, so that a script
	// which does not give it is at fault. Nil means nobody does.
	waits func() bool
}

func newApplication(s *stage) *application {
	a := &application{s: s}
	for _, st := range s.in.Steps {
		a.scripted = a.scripted || st.Dir == vectors.App
	}
	return a
}

// hold keeps an exchange until the script ends it. Without the script, or after
// its end, nobody will.
func (a *application) hold(x exchange) {
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

// send sends the message of a frame: it opens an exchange, or belongs to the
// first one that takes it, which may still be on its way to the application.
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
	var x exchange
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

func (a *application) take(conn string, env *e1.Envelope) (exchange, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.held, func(x exchange) bool { return x.takes(conn, env) })
	if i < 0 {
		return exchange{}, false
	}
	x := a.held[i]
	a.held = slices.Delete(a.held, i, i+1)
	return x, true
}

// letGo ends all held exchanges, and later ones.
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

// over reports whether the script has come to its end.
func (a *application) over() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

// stops calls f when ctx ends while the script still plays and has not answered:
// the exchange was ended from outside. The function it returns reports that it
// was answered.
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

// leave counts what was not answered. The caller holds mu.
func (a *application) leave(x exchange) {
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

// hears waits until the application was told something more, and takes it.
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
