package client

import (
	"context"
	"crypto/ecdh"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/policyhint"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/serve"
)

// Sealing says how to secure an envelope of A2A-SDL. The zero value leaves it unchanged.
type Sealing struct {
	Signer  seal.Signer      // without a key nothing is signed
	To      []seal.Recipient // none: nothing is encrypted
	Nonce   string           // of sec.replay; empty: none
	Expires time.Time        // of sec.replay
	Session string           // binding_id of sec.session; empty: none
}

// Seal encrypts an envelope, adds the session and the replay fields, and signs it, in this
// order.
func (s *Sealing) Seal(v canonical.Value) (canonical.Value, error) {
	var err error
	if len(s.To) > 0 {
		if v, err = seal.Encrypt(v, nil, s.To...); err != nil {
			return v, err
		}
	}
	member := func(name, value string) canonical.Member {
		return canonical.Member{Name: name, Value: canonical.String(value)}
	}
	sec := v.Get("sec")
	if sec.Kind() != canonical.KindObject {
		sec = canonical.Object(member("mode", seal.None))
	}
	if s.Nonce != "" {
		sec = sec.With("replay", canonical.Object(member("nonce", s.Nonce), member("exp", sdl.FormatTime(s.Expires))))
	}
	if s.Session != "" {
		sec = sec.With("session", canonical.Object(member("binding_id", s.Session)))
	}
	if s.Nonce != "" || s.Session != "" {
		v = v.With("sec", sec)
	}
	if s.Signer.Key != nil {
		return s.Signer.Sign(v)
	}
	return v, nil
}

// SDLError is an error answer of A2A-SDL.
type SDLError struct {
	Code      string
	Message   string
	Details   canonical.Value
	Retryable bool
}

func (e *SDLError) Error() string {
	text := "sdl: " + e.Code
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.Details.Len() > 0 {
		text += " " + string(e.Details.AppendJSON(nil))
	}
	return text
}

// SDLTrust says whose envelopes a client believes. The zero value believes everyone.
type SDLTrust struct {
	// Signers are the keys of which one has signed each envelope, by kid. None: signatures
	// are not looked at.
	Signers map[string]ed25519.PublicKey

	// Keys decrypt what is encrypted to this side, by kid. An envelope for other keys is an
	// error.
	Keys map[string]*ecdh.PrivateKey
}

// open returns an envelope with its payload in clear, or an error unless one of the Signers has
// signed it and one of the Keys opens it.
func (t *SDLTrust) open(e *sdl.Envelope) (*sdl.Envelope, error) {
	if len(t.Signers) > 0 {
		key, ok := t.Signers[e.Sec.Kid]
		if !ok {
			return nil, distrust(e.Sec.Kid)
		}
		if _, err := seal.Verify(e.Value, key); err != nil {
			return nil, err
		}
	}
	if !e.Sec.Encrypted() {
		return e, nil
	}
	payload, err := seal.Decrypt(e.Value, func(kid string) *ecdh.PrivateKey { return t.Keys[kid] })
	if err != nil {
		return nil, fmt.Errorf("client: the envelope is encrypted, and there is no key that opens it: %w", err)
	}
	if refused := e.CheckPayload(payload); refused != nil {
		return nil, refused
	}
	clear := *e
	clear.Payload, clear.Value = payload, e.Value.With("payload", payload)
	return &clear, nil
}

// AskSDL sends an envelope of type req and returns the verified answer: it is valid, from
// the requested agent, about this request, and of an agent that trust believes. If the
// answer is an error, the error is an *SDLError; that one is unsigned if the server could
// not read the request.
func (c *Client) AskSDL(ctx context.Context, form sdl.Form, request canonical.Value, trust SDLTrust) (*sdl.Envelope, error) {
	asked, refused := sdl.Validate(request, sdl.Options{OtherTypes: true})
	if refused != nil {
		return nil, refused
	}
	if asked.Type != sdl.TypeReq {
		return nil, fmt.Errorf("client: envelope of type %q, want %q", asked.Type, sdl.TypeReq)
	}
	octets, err := carriage.Call(ctx, c.Session, form.Append(nil, request))
	if err != nil && c.lostWay() != nil {
		return nil, c.lostWay()
	}
	if err != nil {
		return nil, c.Explain(err)
	}
	answer, refused := readSDL(octets)
	if refused != nil {
		return nil, refused
	}
	failure := failureOf(answer)
	if failure != nil && answer.From.AgentID == sdl.UnknownAgent {
		return answer, failure
	}
	if err := serve.CheckAnswer(asked, answer); err != nil {
		return nil, err
	}
	opened, err := trust.open(answer)
	if err != nil {
		return nil, errors.Join(failureError(failure), err)
	}
	return opened, failureError(failureOf(opened))
}

// readSDL reads an envelope in either form.
func readSDL(octets []byte) (*sdl.Envelope, *sdl.Error) {
	form, refused := sdl.FormOf(octets)
	if refused != nil {
		return nil, refused
	}
	v, refused := sdl.Decode(octets, form, sdl.Limits{})
	if refused != nil {
		return nil, refused
	}
	return sdl.Validate(v, sdl.Options{})
}

// distrust returns the error for an envelope with an untrusted signature.
func distrust(kid string) error {
	if kid == "" {
		return errors.New("client: the envelope is not signed")
	}
	return fmt.Errorf("client: the envelope is signed as %.100q, which is not trusted", kid)
}

// failureError converts a nil *SDLError into a nil error.
func failureError(e *SDLError) error {
	if e == nil {
		return nil
	}
	return e
}

func failureOf(e *sdl.Envelope) *SDLError {
	if e.CT != sdl.CTError || e.Payload.IsNull() {
		return nil // no error, or one that is encrypted
	}
	f := &SDLError{Details: e.Payload.Get("details")}
	f.Code, _ = e.Payload.Get("code").Text()
	f.Message, _ = e.Payload.Get("message").Text()
	f.Retryable, _ = e.Payload.Get("retryable").Bool()
	return f
}

// SDLOptions configure NewSDL.
type SDLOptions struct {
	// Heard is called with each valid event, by many goroutines at once. Nil drops events.
	Heard func(*sdl.Envelope)

	// Stopped is called for each action that a hint of this side has stopped. It must not
	// block. It may be nil.
	Stopped func(*policyhint.ViolationError)
}

// NewSDL returns profiles that receive events of A2A-SDL, for Options.Profiles. The caller
// closes them.
func NewSDL(o SDLOptions) (*all.Set, error) {
	if o.Heard == nil {
		o.Heard = func(*sdl.Envelope) {}
	}
	hints := Options{Stopped: o.Stopped}
	return all.New(all.Options{Hints: hints.hints(), SDL: carriage.Options{Server: hearing(o.Heard)}})
}

// hearing is a Server for events only.
type hearing func(*sdl.Envelope)

var errNoAgent = profiles.Errorf(profiles.SecurityPolicy, "client: this side answers no requests")

// Handle implements the Server of the profile.
func (h hearing) Handle(_ context.Context, m *carriage.Message) carriage.Answer {
	if m.Type != carriage.TypeEvt {
		f := &carriage.Fault{Code: carriage.CodeSecurity, Cause: errNoAgent}
		return carriage.Answer{Body: h.Refusal(m.Form, f), Fault: f}
	}
	e, refused := readSDL(m.Body)
	if refused == nil && e.Type == sdl.TypeEvt {
		h(e)
		return carriage.Answer{}
	}
	if refused == nil {
		return carriage.Answer{Fault: &carriage.Fault{Mismatch: true}}
	}
	return carriage.Answer{Fault: &carriage.Fault{Code: string(refused.Code), Cause: refused}}
}

// Refusal implements the Server of the profile.
func (h hearing) Refusal(form carriage.Form, f *carriage.Fault) []byte {
	v := sdl.ErrorEnvelope(canonical.Value{}, &sdl.Error{Code: sdl.Code(f.Code), Retryable: f.Retryable}, sdl.Writing{})
	if form == carriage.CBOR {
		return sdl.CBOR.Append(nil, v)
	}
	return sdl.JSON.Append(nil, v)
}
