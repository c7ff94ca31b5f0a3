package serve_test

import (
	"context"
	"crypto/ecdh"
	"slices"
	"testing"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/serve"
	"github.com/slimwire/swp/sdl/trust"
)

// accepting returns the details of a refusal by a server that accepts these modes.
func accepting(modes ...string) string {
	return `{"accepted":{"modes":` + canonical.Strings(modes...).String() + `},` +
		`"supported":{"enc":["x25519-chacha20poly1305"],"modes":["enc","enc+sig","none","sig"],"sig":["ed25519"]}}`
}

func TestSecuredMessageIsAnsweredOnceAndSigned(t *testing.T) {
	o := guarded(t)
	o.Policy.Mode, o.Policy.RequireReplay = sdl.ModeEncSig, true
	o.Recipients = readers(t)
	s := newServer(t, o)
	v := sign(t, encrypt(t, request(t, sdl.CTTask, taskPayload)), "n1")
	out := ask(t, s, v)
	if state := opened(t, out.Response, sdl.CTState); state.Get("patch").Len() != 2 {
		t.Errorf("the answer is %s", state.AppendJSON(nil))
	}
	if goal := text(out.Request.Payload.Get("goal")); goal != "tidy up" || !out.Request.Verified {
		t.Errorf("the handler got goal %q, verified %v", goal, out.Request.Verified)
	}
	if _, err := seal.Verify(out.Response, publicKey(executorKid)); err != nil || text(out.Response.Get("sec").Get("kid")) != executorKid {
		t.Errorf("signature of the answer: %v", err)
	}
	out = ask(t, s, v)
	equal(t, "details", refused(t, out, sdl.BadRequest, false).Get("details"), `{"reason":"replay_detected"}`)
	if _, err := seal.Verify(out.Response, publicKey(executorKid)); err != nil {
		t.Errorf("signature of the refusal: %v", err)
	}
}

const plannerEnc = planner + "#e1"

// readers has the key of the planner.
func readers(t *testing.T) func(string) []seal.Recipient {
	t.Helper()
	key := decryptKey(t, plannerEnc).PublicKey()
	return func(agent string) []seal.Recipient {
		if agent != planner {
			return nil
		}
		return []seal.Recipient{{Kid: plannerEnc, Key: key}}
	}
}

// opened returns the payload of an answer that is encrypted to the planner, and signed.
func opened(t *testing.T, v canonical.Value, ct string) canonical.Value {
	t.Helper()
	if got := text(v.Get("ct")); got != ct || seal.Mode(v) != seal.EncSig || !v.Get("payload").IsNull() {
		t.Fatalf("want %s encrypted and signed: %s", ct, v.AppendJSON(nil))
	}
	if _, err := seal.Verify(v, publicKey(executorKid)); err != nil {
		t.Error(err)
	}
	key := decryptKey(t, plannerEnc)
	p, err := seal.Decrypt(v, func(string) *ecdh.PrivateKey { return key })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What was asked under encryption is answered under encryption: results and refusals of
// handlers. Before the sender is verified nothing is encrypted to it.
func TestEncryptedRequestIsAnsweredEncrypted(t *testing.T) {
	for _, mode := range []string{"", sdl.ModeEncSig} {
		o := guarded(t)
		o.Policy.Mode, o.Recipients = mode, readers(t)
		s := newServer(t, o)
		opened(t, ask(t, s, sign(t, encrypt(t, request(t, sdl.CTTask, taskPayload)), "n1")).Response, sdl.CTState)
		p := opened(t, ask(t, s, sign(t, encrypt(t, request(t, sdl.CTArtifact, `{"items":[],"refs":[]}`)), "n2")).Response, sdl.CTError)
		if code := text(p.Get("code")); code != string(sdl.UnsupportedCT) {
			t.Errorf("code %q", code)
		}
		refused(t, ask(t, s, sign(t, encrypt(t, request(t, sdl.CTTask, taskPayload)), "n1")), sdl.BadRequest, false)
	}
}

// Without a key of the sender nothing of an encrypted request goes out in clear where the policy
// demands encryption.
func TestEncryptedRequestWithoutAKeyForItsAnswerIsRefused(t *testing.T) {
	o := guarded(t)
	v := encrypt(t, request(t, sdl.CTTask, taskPayload))
	payload(t, ask(t, newServer(t, o), sign(t, v, "n1")), sdl.CTState)
	o.Policy.Mode = sdl.ModeEncSig
	out := ask(t, newServer(t, o), sign(t, v, "n2"))
	if reason := text(refused(t, out, sdl.SecurityUnsupported, false).Get("details").Get("reason")); reason != sdl.ReasonNoAnswerKey || out.Request != nil {
		t.Errorf("reason %q; handled: %v", reason, out.Request != nil)
	}
	o.Compat.ClearAnswers = true
	payload(t, ask(t, newServer(t, o), sign(t, v, "n3")), sdl.CTState)
}

func TestAnswersAreUnsignedWhereTheRequestIs(t *testing.T) {
	o := guarded(t)
	o.Policy, o.Registry = nil, nil
	if out := ask(t, newServer(t, o), request(t, sdl.CTTask, taskPayload)); out.Response.Has("sec") {
		t.Error("the answer to a request without security is signed")
	}
	o = guarded(t)
	o.Signer = seal.Signer{}
	if out := ask(t, newServer(t, o), sign(t, request(t, sdl.CTTask, taskPayload), "")); out.Response.Has("sec") {
		t.Error("the answer has sec, and there is no key to sign with")
	}
}

func TestExpiredNonceIsRefused(t *testing.T) {
	v := request(t, sdl.CTTask, taskPayload)
	v = v.With("sec", parse(t, `{"mode":"none","replay":{"nonce":"n","exp":"2026-05-04T03:02:01Z"}}`))
	s := newServer(t, serve.Options{Replay: &trust.Replay{Nonces: trust.NewMemory(trust.MemoryOptions{Now: now})}})
	equal(t, "details", refused(t, ask(t, s, v), sdl.BadRequest, false).Get("details"), `{"reason":"replay_expired"}`)
}

func TestNoncesCountWithoutAPolicyWhereConfigured(t *testing.T) {
	v := request(t, sdl.CTTask, taskPayload)
	v = v.With("sec", parse(t, `{"mode":"none","replay":{"nonce":"n","exp":"2026-05-04T03:05:00Z"}}`))
	s := newServer(t, serve.Options{Replay: &trust.Replay{Nonces: trust.NewMemory(trust.MemoryOptions{Now: now})}})
	payload(t, ask(t, s, v), sdl.CTState)
	equal(t, "details", refused(t, ask(t, s, v), sdl.BadRequest, false).Get("details"), `{"reason":"replay_detected"}`)
	payload(t, ask(t, s, v.Without("sec")), sdl.CTState)

	s = newServer(t, serve.Options{})
	payload(t, ask(t, s, v), sdl.CTState)
	payload(t, ask(t, s, v), sdl.CTState)
}

// What a refusal says is accepted is accepted, and nothing else is.
func TestTheAdvertisedModesAreThoseThatAreAdmitted(t *testing.T) {
	task := request(t, sdl.CTTask, taskPayload)
	with := func(change func(*trust.Policy)) serve.Options {
		o := guarded(t)
		change(o.Policy)
		return o
	}
	sealed := with(func(p *trust.Policy) { p.Mode = sdl.ModeEncSig })
	sealed.Recipients = readers(t)
	for name, o := range map[string]serve.Options{
		"no policy":   {},
		"any signed":  with(func(*trust.Policy) {}),
		"signed":      with(func(p *trust.Policy) { p.Mode = sdl.ModeSig }),
		"sealed":      sealed,
		"without key": with(func(p *trust.Policy) { p.DecryptKeys = nil }),
	} {
		s := newServer(t, o)
		admitted := []string{}
		var told []canonical.Value
		for mode, v := range map[string]canonical.Value{
			sdl.ModeNone: task, sdl.ModeSig: sign(t, task, "a"), sdl.ModeEnc: encrypt(t, task), sdl.ModeEncSig: sign(t, encrypt(t, task), "b"),
		} {
			if out := ask(t, s, v); out.Err == nil {
				admitted = append(admitted, mode)
			} else {
				told = append(told, out.Response.Get("payload").Get("details").Get("accepted").Get("modes"))
			}
		}
		slices.Sort(admitted)
		for _, modes := range told {
			if !modes.Equal(canonical.Strings(admitted...)) {
				t.Errorf("%s: refusals say %v, admitted are %q", name, modes, admitted)
			}
		}
		if len(told) == 0 || len(admitted) == 0 {
			t.Errorf("%s: %d refused, %d admitted", name, len(told), len(admitted))
		}
	}
}

func TestAnUnknownContentTypeIsToldWhatIsServed(t *testing.T) {
	s := newServer(t, serve.Options{})
	details := refused(t, ask(t, s, request(t, sdl.CTTask, taskPayload).With("ct", canonical.String("haggle.v2"))), sdl.UnsupportedCT, true).Get("details")
	equal(t, "implemented", details.Get("implemented"), canonical.Strings(s.Implemented()...).String())
}

func TestSenderIsOneThatItsIdentityMayUse(t *testing.T) {
	o := guarded(t)
	s := newServer(t, o)
	v := sign(t, request(t, sdl.CTTask, taskPayload), "n1")
	other := serve.Caller{Identity: "spiffe://example.org/other", MayUse: func(agent string) bool { return agent == executor }}
	out := deliver(t, s, v.AppendJSON(nil), other)
	equal(t, "details", refused(t, out, sdl.SecurityUnsupported, false).Get("details"), accepting("enc+sig", "sig"))

	// The nonce is not used up by someone else.
	own := serve.Caller{MayUse: func(agent string) bool { return agent == planner }}
	payload(t, deliver(t, s, v.AppendJSON(nil), own), sdl.CTState)
}

func TestPR21NobodyIsAnsweredInTheNameOfAnotherAgent(t *testing.T) {
	signed := guarded(t)
	signed.Policy.Local = ""
	for name, o := range map[string]serve.Options{"without keys": {}, "with keys": signed} {
		o.Local = executor
		o.Replay = &trust.Replay{Nonces: trust.NewMemory(trust.MemoryOptions{Now: now})}
		if o.Policy != nil {
			o.Policy.Replay = o.Replay
		}
		s := newServer(t, o)
		ours := request(t, sdl.CTTask, taskPayload)
		theirs := ours.With("to", ours.Get("to").With("agent_id", canonical.String(planner)))
		if o.Policy != nil {
			ours, theirs = sign(t, ours, "n1"), sign(t, theirs, "n1")
		}
		out := ask(t, s, theirs)
		refused(t, out, sdl.SecurityUnsupported, false)
		if from := text(out.Response.Get("from").Get("agent_id")); from != sdl.UnknownAgent || out.Request != nil {
			t.Errorf("%s: answered as %q, request %+v", name, from, out.Request)
		}
		out = ask(t, s, ours) // its nonce is not used up
		payload(t, out, sdl.CTState)
		if from := text(out.Response.Get("from").Get("agent_id")); from != executor {
			t.Errorf("%s: answered as %q, want %q", name, from, executor)
		}
	}
}

func TestMessageOfAnotherTypeIsNotAnswered(t *testing.T) {
	o := guarded(t)
	s := newServer(t, o)
	v := sign(t, request(t, sdl.CTTask, taskPayload), "n1")
	out := s.Handle(t.Context(), v.AppendJSON(nil), sdl.JSON, serve.Caller{Type: sdl.TypeEvt})
	if out.Answer != nil || out.Err == nil || out.Request != nil {
		t.Errorf("a req that came as evt: answer %q, error %v", out.Answer, out.Err)
	}
	payload(t, deliver(t, s, v.AppendJSON(nil), serve.Caller{Type: sdl.TypeReq}), sdl.CTState)

	// A type that is none is a fault of the message, and answered.
	v = request(t, sdl.CTTask, taskPayload).With("type", canonical.String("ask"))
	refused(t, deliver(t, s, v.AppendJSON(nil), serve.Caller{Type: sdl.TypeReq}), sdl.BadRequest, false)
}

func TestReceiveChecksWithoutAnswering(t *testing.T) {
	s := newServer(t, guarded(t))
	body := sign(t, request(t, sdl.CTState, `{"base":"","patch":[]}`).With("type", canonical.String(sdl.TypeEvt)), "n1").AppendJSON(nil)
	r, err := s.Receive(t.Context(), body, sdl.JSON, serve.Caller{Type: sdl.TypeEvt})
	if err != nil || r.Agent() != planner || !r.Verified {
		t.Fatalf("%v, %v", r, err)
	}
	if _, err = s.Receive(t.Context(), body, sdl.JSON, serve.Caller{Type: sdl.TypeEvt}); err == nil {
		t.Error("received twice")
	}
}

func TestAnswerIsInTheFormOfTheRequest(t *testing.T) {
	s := newServer(t, serve.Options{})
	out := s.Handle(context.Background(), request(t, sdl.CTTask, taskPayload).AppendCBOR(nil), sdl.CBOR, serve.Caller{})
	if e := valid(t, out.Answer, sdl.CBOR); e.CT != sdl.CTState {
		t.Errorf("answer of ct %q", e.CT)
	}
	out = s.Handle(context.Background(), []byte("crates"), sdl.JSON, serve.Caller{})
	valid(t, out.Answer, sdl.JSON)
	refused(t, out, sdl.UnsupportedEncoding, false)
	out = s.Refuse(sdl.Refuse(sdl.UnsupportedEncoding, "media type"))
	valid(t, out.Answer, sdl.JSON)
	if from := text(out.Response.Get("from").Get("agent_id")); from != sdl.UnknownAgent {
		t.Errorf("from %q, want %q", from, sdl.UnknownAgent)
	}
}

func TestRefusalOfAnUnusableSenderIsValid(t *testing.T) {
	s := newServer(t, serve.Options{})
	for _, from := range []string{`"me"`, `{}`, `{"agent_id":"a","name":"","instance":"i","role":"r"}`} {
		out := ask(t, s, request(t, sdl.CTTask, taskPayload).With("from", parse(t, from)))
		refused(t, out, sdl.BadRequest, false)
		if to := text(out.Response.Get("to").Get("agent_id")); to != sdl.UnknownAgent {
			t.Errorf("answer to %q, want %q", to, sdl.UnknownAgent)
		}
	}
}
