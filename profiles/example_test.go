package profiles_test

import (
	"context"
	"fmt"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// A profile of one's own, with an error message of its own. package endpoint serves
// it, as the example there shows.
func Example() {
	const (
		typeAsk = iota + 1
		typeTell
		typeErr
	)
	oracle := &profiles.Profile{
		ID: 5001, Name: "oracle",
		Types: []profiles.Type{
			{ID: typeAsk, Name: "ASK", Role: profiles.Initiating},
			{ID: typeTell, Name: "TELL", Role: profiles.Answer | profiles.Terminal},
			{ID: typeErr, Name: "ERR", Role: profiles.Answer | profiles.Terminal},
		},
		// A handler must not wait: what takes long is detached.
		Handler: profiles.HandlerFunc(func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			return req.Detach(func(_ context.Context, req *profiles.Request, w profiles.Responder) error {
				if len(req.Payload) == 0 {
					return profiles.Errorf(profiles.InvalidProfilePayload, "oracle: no question")
				}
				return w.Finish(e1.Envelope{MsgType: typeTell, Payload: []byte("42")})
			})
		}),
		// Every error that a handler returns reaches the sender as this message.
		Refusal: func(_ *profiles.Request, err *profiles.Error) (e1.Envelope, bool) {
			return e1.Envelope{MsgType: typeErr, Payload: []byte(err.Code.String() + " " + err.Text)}, true
		},
	}
	registry, err := profiles.NewRegistry(oracle)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, _ := registry.Lookup(5001)
	ask, _ := p.Type(typeAsk)
	_, listed := p.Type(9)
	fmt.Println(p.Name, ask.Name, ask.Role == profiles.Initiating, listed)
	_, err = profiles.NewRegistry(oracle, oracle)
	fmt.Println(err)
	// Output:
	// oracle ASK true false
	// profiles: oracle: profile_id 5001 is taken
}
