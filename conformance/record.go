package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"

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
	msgID  []byte
	answer func(msgType uint64, payload []byte) (terminal bool, err error)
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

// send says what is in a frame: on the exchange with its msg_id.
func (a *application) send(octets []byte) error {
	env, err := decode(octets)
	if err != nil {
		return fmt.Errorf("what the application is to say: %w", err)
	}
	a.mu.Lock()
	i := slices.IndexFunc(a.held, func(x exchange) bool { return string(x.msgID) == string(env.MsgID) })
	if i < 0 {
		a.mu.Unlock()
		return fmt.Errorf("the application was not asked anything under msg_id %q", env.MsgID)
	}
	x := a.held[i]
	a.mu.Unlock()
	terminal, err := x.answer(env.MsgType, env.Payload)
	if err != nil {
		return fmt.Errorf("the application cannot say it: %w", err)
	}
	if terminal {
		a.mu.Lock()
		a.held = slices.DeleteFunc(a.held, func(y exchange) bool { return string(y.msgID) == string(x.msgID) })
		a.mu.Unlock()
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
		types = append(types, profiles.Type{ID: uint64(i + 1), Name: "recorded", Role: r}) //nolint:gosec // a few
	}
	return types
}

// recorder is the handler of one recording profile.
type recorder struct {
	s       *stage
	profile uint64
}

func (r recorder) Serve(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
	waits := r.s.app.scripted && !req.Unsolicited
	if waits {
		kept, w, err := req.Hold()
		if err != nil {
			return err
		}
		r.s.app.hold(exchange{
			msgID: slices.Clone(kept.MsgID),
			answer: func(msgType uint64, payload []byte) (bool, error) {
				env := kept.Envelope
				env.MsgType, env.Payload, env.MsgID, env.Timestamp = msgType, payload, nil, 0
				const streamItem = 4 // of profile 12; the other answers end the exchange
				if msgType == streamItem {
					return false, w.Send(env)
				}
				return true, w.Finish(env)
			},
			drop: func() { w.Fail(nil) },
		})
	}
	r.s.handled(r.profile, &req.Envelope, waits)
	return nil
}
