package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/vectors"
)

// application is what runs behind the endpoint: it keeps requests open where
// the input has something for it to say, and says it.
type application struct {
	s        *stage
	scripted bool // there are App steps: requests wait for them

	mu   sync.Mutex
	held []exchange
}

// exchange is a request that waits for its answer.
type exchange struct {
	takes  func(answer *e1.Envelope) bool // says whether an answer belongs to it
	answer func(answer *e1.Envelope) (terminal bool, err error)
	drop   func() // ends it without an answer
}

func newApplication(s *stage) *application {
	a := &application{s: s}
	for _, st := range s.in.Steps {
		a.scripted = a.scripted || st.Dir == vectors.App
	}
	return a
}

func (a *application) hold(x exchange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = append(a.held, x)
}

// send says what is in a frame, on the first exchange that it belongs to.
func (a *application) send(octets []byte) error {
	env, err := decode(octets)
	if err != nil {
		return fmt.Errorf("what the application is to say: %w", err)
	}
	a.mu.Lock()
	i := slices.IndexFunc(a.held, func(x exchange) bool { return x.takes(env) })
	if i < 0 {
		a.mu.Unlock()
		return fmt.Errorf("the application was not asked what it is to answer: %.64q", env.Payload)
	}
	x := a.held[i]
	a.held = slices.Delete(a.held, i, i+1)
	a.mu.Unlock()
	terminal, err := x.answer(env)
	if err != nil {
		return fmt.Errorf("the application cannot say it: %w", err)
	}
	if !terminal {
		a.hold(x)
	}
	return nil
}

// letGo ends what is still held.
func (a *application) letGo() {
	a.mu.Lock()
	held := a.held
	a.held = nil
	a.mu.Unlock()
	for _, x := range held {
		x.drop()
	}
}

// recording returns profiles that take every payload as it is, note what they
// were given and answer only what they are told to. The core, e1 and s1 vectors
// end before the payload means anything.
func recording(s *stage) []*profiles.Profile {
	var list []*profiles.Profile
	for _, id := range []uint64{1, 2, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19} {
		list = append(list, &profiles.Profile{ID: id, Name: fmt.Sprintf("recorder%d", id), Types: typesOf(id), Handler: recorder{s, id}})
	}
	return list
}

// typesOf is the table of a profile. For those whose roles no vector of this
// kind depends on, every type may open an exchange and answer one.
func typesOf(id uint64) []profiles.Type {
	const both = profiles.Initiating | profiles.Answer
	roles := []profiles.Role{both, both, both, both, both, both, both, both}
	switch id {
	case 1:
		roles = []profiles.Role{profiles.Initiating, profiles.Answer, profiles.Initiating}
	case 12:
		roles = []profiles.Role{profiles.Initiating, profiles.Answer, profiles.Answer, profiles.Answer, profiles.Initiating}
	}
	var types []profiles.Type
	for i, r := range roles {
		types = append(types, profiles.Type{ID: uint64(i + 1), Name: "recorded", Role: r})
	}
	return types
}

// recorder is the handler of one recording profile.
type recorder struct {
	s       *stage
	profile uint64
}

func (r recorder) Serve(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
	r.s.handled(r.profile, &req.Envelope)
	if !r.s.app.scripted || req.Unsolicited {
		return nil
	}
	kept, w, err := req.Hold()
	if err != nil {
		return err
	}
	r.s.app.hold(exchange{
		takes: func(a *e1.Envelope) bool { return string(a.MsgID) == string(kept.MsgID) },
		answer: func(a *e1.Envelope) (bool, error) {
			env := e1.Envelope{MsgType: a.MsgType, Payload: a.Payload}
			const streamItem = 4 // of profile 12; the other answers end the exchange
			if a.MsgType == streamItem {
				return false, w.Send(env)
			}
			return true, w.Finish(env)
		},
		drop: func() { w.Fail(nil) },
	})
	r.s.kept()
	return nil
}

// witness is a handler that notes what another one was given and did not
// refuse.
type witness struct {
	s       *stage
	profile uint64
	handler profiles.Handler
}

// witnessed puts a witness before the handler of a profile.
func witnessed(s *stage, p *profiles.Profile) *profiles.Profile {
	w := *p
	w.Handler = witness{s, p.ID, p.Handler}
	return &w
}

func (w witness) Serve(ctx context.Context, req *profiles.Request, r profiles.Responder) error {
	// Noted before, because the verdict of an exchange may come before Serve
	// returns.
	step := w.s.handled(w.profile, &req.Envelope)
	err := w.handler.Serve(ctx, req, r)
	if err != nil {
		w.s.unhandled(step)
	}
	return err
}
