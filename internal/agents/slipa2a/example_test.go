package slipa2a_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/slimwire/swp/internal/agents/slipa2a"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/slip/slipstream"
)

// A client that asks for a review, if the card of the agent says that it understands.
func ExampleExtension_Encode() {
	card := []byte(`{"name":"reviewer","capabilities":{"extensions":[{"uri":"` + slipa2a.URI + `","params":{"slipVersion":"v1","ucrVersion":"1.0.0"}}]}}`)
	declared, ok, err := slipa2a.Declared(card)
	if err != nil || !ok || !declared.Understands() {
		fmt.Println("plain text, then", err)
		return
	}
	slip, err := slipa2a.New(slipa2a.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	message, err := slip.Encode(slipa2a.Outgoing{
		MessageID:   "msg-1",
		SLIP:        slipstream.Say("planner", "reviewer", "RequestReview", "auth_module"),
		Attachments: []json.RawMessage{[]byte(`{"url": "https://example.org/auth.patch", "mediaType": "text/x-diff"}`)},
	})
	fmt.Println(string(message), err)
	// Output: {"messageId":"msg-1","role":"ROLE_USER","extensions":["https://github.com/anthony-maio/slipcore/extensions/a2a-slipstream/v1"],"metadata":{"https://github.com/anthony-maio/slipcore/extensions/a2a-slipstream/v1":{"slipVersion":"v1","ucrVersion":"1.0.0","ucrHash":"sha256:19bb36792d59061553d1b63cc4d56ec3e8748b7b059737754057fa3e7abbc700","encoding":"mnemonic"}},"parts":[{"text":"SLIP v1 planner reviewer RequestReview auth_module"},{"url": "https://example.org/auth.patch", "mediaType": "text/x-diff"}]} <nil>
}

// An agent in Go that answers in SLIP where it may.
func ExampleExtension_Wrap() {
	slip, err := slipa2a.New(slipa2a.Options{Mismatch: slipa2a.Fallback})
	if err != nil {
		fmt.Println(err)
		return
	}
	reviewer := a2a.WorkerFunc(func(ctx context.Context, _ *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
		in, ok := slipa2a.Of(ctx)
		if !ok || in.Kind != slipa2a.SLIP || in.Message.Anchor.Mnemonic != "RequestReview" {
			return nil, a2abinding.Fail(a2abinding.CodeUnsupported, "ask for a review").Result()
		}
		what := in.Message.Text()
		answer, err := slip.Answer(in, slipa2a.Outgoing{
			MessageID: "msg-2", SLIP: slipstream.Say(in.Message.Dst, in.Message.Src, "EvalApprove", what),
		}, what+" is fine")
		return append(append([]byte(`{"message":`), answer...), '}'), err
	})

	output, err := slip.Wrap(reviewer).Run(context.Background(), &a2a.Task{
		Kind: "a2a/1.0/SendMessage",
		Input: []byte(`{"message":{"messageId":"msg-1","role":"user","parts":[{"text":"SLIP v1 planner reviewer RequestReview auth_module"}],
			"extensions":["` + slipa2a.URI + `"],"metadata":{"` + slipa2a.URI + `":{"slipVersion":"v1","encoding":"mnemonic"}}}}`),
	}, nil)
	fmt.Println(string(output), err) // this client has not opted in
	// Output: {"message":{"messageId":"msg-2","role":"ROLE_AGENT","parts":[{"text":"auth_module is fine"}]}} <nil>
}
