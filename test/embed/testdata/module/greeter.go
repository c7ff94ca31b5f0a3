// Package greeter is a profile: HELLO is answered by GREETING.
package greeter

import (
	"context"
	"strconv"
	"sync/atomic"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Numbers and names of the profile.
const (
	ProfileID = 5000
	Name      = "greeter"

	TypeHello    = 1 // payload: whom to greet
	TypeGreeting = 2

	ExtTone = 16 // how to greet, as text

	MethodCount = "greeter.count" // how many were greeted; for those whom a rule lets call it
	MethodTones = "greeter.tones" // open to every peer
)

// New returns the profile.
func New() *profiles.Profile {
	greeted := new(atomic.Int64)
	return &profiles.Profile{
		ID:   ProfileID,
		Name: Name,
		Types: []profiles.Type{
			{ID: TypeHello, Name: "HELLO", Role: profiles.Initiating},
			{ID: TypeGreeting, Name: "GREETING", Role: profiles.Answer | profiles.Terminal},
		},
		Extensions: []uint64{ExtTone},
		Operations: []profiles.Operation{{Name: "hello", On: "who is greeted"}},
		Methods: []profiles.Method{
			{Name: MethodCount, Inline: func(*profiles.Request, []byte) ([]byte, error) {
				return strconv.AppendInt(nil, greeted.Load(), 10), nil
			}},
			{Name: MethodTones, Open: true, Held: func(p profiles.Pending, _ []byte) error {
				if err := p.Item([]byte("loud")); err != nil {
					return err
				}
				return p.Return(nil)
			}},
		},
		Show: func(env *e1.Envelope) any { return map[string]string{"text": string(env.Payload)} },
		Handler: profiles.HandlerFunc(func(_ context.Context, req *profiles.Request, w profiles.Responder) error {
			if !req.May(req.Rules, Name, "hello", string(req.Payload)) {
				return profiles.Deny(&profiles.Error{Code: profiles.SecurityPolicy, Detail: "hello", Text: "not to be greeted by you"})
			}
			greeted.Add(1)
			tone, _ := req.Extensions.Lookup(ExtTone)
			return w.Finish(e1.Envelope{MsgType: TypeGreeting, Payload: append(append(tone[:len(tone):len(tone)], "hello, "...), req.Payload...)})
		}),
	}
}
