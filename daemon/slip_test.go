package daemon

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/agents/slipa2a"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/slip/slipstream"
	"github.com/slimwire/swp/slip/ucr"
)

// inSLIP is the input of a send.
func inSLIP(t *testing.T) string {
	t.Helper()
	x, err := slipa2a.New(slipa2a.Options{})
	if err != nil {
		t.Fatal(err)
	}
	message, err := x.Encode(slipa2a.Outgoing{
		MessageID: "1", SLIP: slipstream.Say("planner", "billing", "RequestReview", "invoice"),
		Attachments: []json.RawMessage{[]byte(`{ "data":9007199254740993 }`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return `{ "message":` + string(message) + `, "n":1.0}`
}

func TestSlipMessagesAreLookedAtBeforeTheAgentGetsThem(t *testing.T) {
	const result = `{"message":{"messageId":"m", "n":1.0}}`
	agent := newScripted(t, func(string) (string, string) { return result, "" })
	good := inSLIP(t)
	foreign := strings.Replace(good, ucr.CoreHash, "sha256:00", 1)
	for _, mismatch := range []string{"refuse", "fallback"} {
		r := start(t, agentYAML(agent.url, ", slip: {mismatch: "+mismatch+"}"))
		s := r.mustDial(r.addrs[0])
		send := func(input string) *a2a.Result {
			_, got := s.hand(t, &a2a.Task{Kind: "a2a/1.0/SendMessage", Input: []byte(input), Params: []string{slipa2a.Param}}, a2a.SendOptions{Agent: "billing"})
			return got
		}
		if got := send(good); !got.OK || string(got.Output) != result {
			t.Fatalf("%s: %+v", mismatch, got)
		}
		n := agent.asked()
		if !strings.HasSuffix(agent.bodies[n-1], `"params":`+good+`}`) || agent.headers[n-1].Get("A2A-Extensions") != slipa2a.URI {
			t.Errorf("%s: asked with %s", mismatch, agent.bodies[n-1])
		}
		got := send(foreign)
		if mismatch == "refuse" {
			failure, _ := a2abinding.OfResult(got)
			if got.OK || failure.Code != a2abinding.CodeInvalidParams || !strings.Contains(string(failure.Data), `"ucr_mismatch"`) || agent.asked() != n {
				t.Errorf("%+v, asked %d times more", got, agent.asked()-n)
			}
		} else {
			if !got.OK || agent.asked() != n+1 {
				t.Fatalf("%+v, asked %d times more", got, agent.asked()-n)
			}
			if body := agent.bodies[n]; strings.Contains(body, slipa2a.URI) || !strings.Contains(body, "RequestReview invoice") || agent.headers[n].Get("A2A-Extensions") != "" {
				t.Errorf("asked with %s", body)
			}
		}
		for range 2 {
			card, err := agdisc.Ask(t.Context(), s.Session, "billing", "")
			if err != nil {
				t.Fatal(err)
			}
			declared, ok, err := slipa2a.Declared(card.Payload)
			if err != nil || !ok || !declared.Understands() || card.ETag != agdisc.HashOf(card.Payload) || card.Revision != "7" {
				t.Errorf("card %+v", card)
			}
			if !strings.HasPrefix(string(card.Payload), strings.TrimSuffix(scriptedCard, " }\n")) {
				t.Errorf("card %s", card.Payload)
			}
		}
		r.end()
	}
}
