package conformance

import (
	"context"
	"fmt"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// recording returns profiles that accept every payload, record it, and answer
// only as instructed. The core, e1 and s1 vectors end before the payload means
// anything.
func recording(s *stage) ([]*profiles.Profile, error) {
	var list []*profiles.Profile
	for _, id := range []uint64{1, 2, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19} {
		list = append(list, &profiles.Profile{ID: id, Name: fmt.Sprintf("recorder%d", id), Types: typesOf(id), Handler: recorder{s, id}, Refusal: profiles.Silent})
	}
	return list, nil
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
	r.s.handled(r.profile, &req.Envelope, false)
	if !r.s.app.scripted || req.Unsolicited {
		return nil
	}
	kept, w, err := req.Hold()
	if err != nil {
		return err
	}
	id := string(kept.MsgID)
	at := placeOf(req)
	r.s.keeps(at)
	r.s.app.hold(heldExchange{
		takes: func(_ string, a *e1.Envelope) bool { return string(a.MsgID) == id },
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
	r.s.served(at)
	return nil
}

// witness is a handler that notes what another one is given.
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
	w.s.handled(w.profile, &req.Envelope, true)
	at := placeOf(req)
	req.Exchange = keeping{req.Exchange, w.s}
	err := w.handler.Serve(ctx, req, r)
	w.s.served(at)
	return err
}

// keeping notes which messages a handler keeps.
type keeping struct {
	profiles.Exchange
	s *stage
}

func (k keeping) Hold(req *profiles.Request, long bool) (*profiles.Request, profiles.Responder, error) {
	kept, w, err := k.Exchange.Hold(req, long)
	if err == nil {
		k.s.keeps(placeOf(kept))
	}
	return kept, w, err
}

func (k keeping) Detach(req *profiles.Request, f func(context.Context, *profiles.Request, profiles.Responder) error) error {
	k.s.keeps(placeOf(req)) // before its verdict can come
	return k.Exchange.Detach(req, f)
}
