package client

import (
	"context"
	"crypto/ed25519"
	"errors"
	"testing"

	"github.com/slimwire/swp/profiles/all"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/serve"
)

// answering is a Server that answers each request as a function says.
type answering func(request canonical.Value) canonical.Value

// Handle implements the Server of the profile.
func (a answering) Handle(_ context.Context, m *carriage.Message) carriage.Answer {
	v, refused := sdl.Decode(m.Body, sdl.JSON, sdl.Limits{})
	if refused != nil {
		return carriage.Answer{Fault: &carriage.Fault{Code: string(refused.Code), Cause: refused}}
	}
	return carriage.Answer{Body: a(v).AppendJSON(nil)}
}

// Refusal implements the Server of the profile.
func (answering) Refusal(carriage.Form, *carriage.Fault) []byte { return []byte("{}") }

// asking returns a client of an endpoint that answers so.
func asking(t *testing.T, a answering) *Client {
	t.Helper()
	set, err := all.New(all.Options{SDL: carriage.Options{Server: a}})
	if err != nil {
		t.Fatal(err)
	}
	return attached(t, set)
}

func TestAnswersOfSDLAreBelievedIfATrustedKeySignedThem(t *testing.T) {
	const kid = "did:web:server.example#1"
	signer := seal.Signer{Kid: kid}
	other := seal.Signer{Kid: kid}
	for _, s := range []*seal.Signer{&signer, &other} {
		var err error
		if s.Key, err = seal.GenerateSigning(nil); err != nil {
			t.Fatal(err)
		}
	}
	trusted := map[string]ed25519.PublicKey{kid: ed25519.PublicKey(signer.Key[ed25519.SeedSize:])}

	server, err := serve.New(serve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// Nobody handles states here, so the answer to one is an error.
	const state = `{"base":"sha256:00","patch":[]}`
	const task = `{"kind":"task.v1","goal":"g","inputs":{},"constraints":{"time_budget_s":1,"compute_budget":"low","safety":{}},` +
		`"deliverables":[],"acceptance":[],"context":{}}`
	const refusal = `sdl: UNSUPPORTED_CT: the content type is not supported ` +
		`{"implemented":["negotiation.v1","session.v1","task.v1","toolcall.v1","trustsync.v1"],` +
		`"supported_ct":["negotiation.v1","session.v1","task.v1","toolcall.v1","trustsync.v1"]}`
	for name, test := range map[string]struct {
		ct, payload string
		sign        *seal.Signer
		want        string
		code        sdl.Code
	}{
		"signed":                  {sdl.CTTask, task, &signer, "", ""},
		"not signed":              {sdl.CTTask, task, nil, "client: the envelope is not signed", ""},
		"under a kid of nobody":   {sdl.CTTask, task, &seal.Signer{Kid: "x", Key: signer.Key}, `client: the envelope is signed as "x", which is not trusted`, ""},
		"by another key":          {sdl.CTTask, task, &other, "seal: signature does not fit the envelope in either form", ""},
		"an error that is signed": {sdl.CTState, state, &signer, refusal, sdl.UnsupportedCT},
		"an error of nobody":      {sdl.CTState, state, nil, refusal + "\nclient: the envelope is not signed", sdl.UnsupportedCT},
	} {
		t.Run(name, func(t *testing.T) {
			c := asking(t, func(request canonical.Value) canonical.Value {
				v := server.Handle(t.Context(), request.AppendJSON(nil), sdl.JSON, serve.Caller{}).Response
				if test.sign == nil {
					return v
				}
				v, err := test.sign.Sign(v)
				if err != nil {
					t.Error(err)
				}
				return v
			})
			payload, err := canonical.ParseJSON([]byte(test.payload))
			if err != nil {
				t.Fatal(err)
			}
			who := func(id string) sdl.Identity { return sdl.Identity{AgentID: id, Name: id, Instance: "1", Role: "agent"} }
			request := sdl.New(sdl.TypeReq, test.ct, who("did:key:caller"), who("did:web:server.example"), payload, sdl.Writing{})
			answer, err := c.AskSDL(t.Context(), sdl.JSON, request, SDLTrust{Signers: trusted})
			switch {
			case err == nil && test.want == "":
				if answer.CT != sdl.CTState {
					t.Errorf("answered with %s", answer.CT)
				}
			case err == nil || err.Error() != test.want:
				t.Errorf("error %v, want %q", err, test.want)
			}
			if said := (*SDLError)(nil); errors.As(err, &said) != (test.code != "") || said != nil && said.Code != string(test.code) {
				t.Errorf("error %#v, want code %q", err, test.code)
			}
		})
	}
}
