package sdl

import (
	"time"

	"github.com/slimwire/swp/sdl/canonical"
)

// Writing has the settings for writing envelopes. The zero value is the defaults.
type Writing struct {
	Limits Limits           // for cap, and for all answers
	Tools  []string         // names for cap.tools, sorted
	Now    func() time.Time // default time.Now
	NewID  func() string    // ids of envelopes and spans; default NewID
}

func (w Writing) withDefaults() Writing {
	w.Limits = w.Limits.withDefaults()
	if w.Now == nil {
		w.Now = time.Now
	}
	if w.NewID == nil {
		w.NewID = NewID
	}
	return w
}

// Cap returns cap in the form of the wire (§2.4).
func (w Writing) Cap() canonical.Value {
	return object(
		member("a2a_sdl", object(
			member("v", canonical.Int(Version)),
			member("enc", canonical.Strings(CBOR.String(), JSON.String())),
			member("sig", canonical.Strings(AlgEd25519)),
			member("kex", canonical.Strings("x25519")),
			member("comp", canonical.Array()),
		)),
		member("tools", canonical.Strings(w.Tools...)),
		member("modalities", canonical.Strings("text")),
		member("limits", w.Limits.Value()),
	)
}

// New returns an envelope without trace and sec, under the built-in schema of ct.
func New(typ, ct string, from, to Identity, payload canonical.Value, w Writing) canonical.Value {
	return w.withDefaults().envelope(typ, ct, from.Value(), to.Value(), payload)
}

// Response returns the answer to a valid request: sent by its receiver, with the next step
// of its trace (§2.5), under the built-in schema of ct. The answer is not checked.
func Response(request canonical.Value, ct string, payload canonical.Value, w Writing) canonical.Value {
	return w.withDefaults().answer(request, ct, payload)
}

// ErrorEnvelope returns the answer to a refused request (§9). The request may be any value,
// or null if it cannot be parsed. Its sender, receiver and trace are repeated only if they
// are valid and the answer stays within the limits.
func ErrorEnvelope(request canonical.Value, e *Error, w Writing) canonical.Value {
	w = w.withDefaults()
	v := w.answer(request, CTError, e.Payload())
	if w.Limits.check(v) != nil {
		v = w.answer(canonical.Value{}, CTError, e.Payload())
	}
	return v
}

func (w Writing) answer(request canonical.Value, ct string, payload canonical.Value) canonical.Value {
	v := w.envelope(TypeRes, ct, echo(request.Get("to")), echo(request.Get("from")), payload)
	if t := answerTrace(request.Get("trace"), w.Limits, w.NewID); !t.IsNull() {
		v = v.With("trace", t)
	}
	return v
}

// echo returns an identity of a request with all its members, or the substitute for an
// invalid one.
func echo(v canonical.Value) canonical.Value {
	if _, refused := identity("identity", v); refused != nil {
		return unknown.Value()
	}
	return v
}

func (w Writing) envelope(typ, ct string, from, to, payload canonical.Value) canonical.Value {
	return object(
		member("v", canonical.Int(Version)),
		member("id", canonical.String(w.NewID())),
		member("ts", canonical.String(FormatTime(w.Now()))),
		member("type", canonical.String(typ)),
		member("from", from),
		member("to", to),
		member("cap", w.Cap()),
		member("ct", canonical.String(ct)),
		member("schema", Schema(ct)),
		member("payload", payload),
	)
}
