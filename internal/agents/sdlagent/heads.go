package sdlagent

import (
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// Heads reads the addresses of envelopes and builds error envelopes for refused ones,
// without the rest of the language. An endpoint that only forwards envelopes uses it.
type Heads struct{}

// Head implements Onward of the profile.
func (Heads) Head(form carriage.Form, body []byte) (carriage.Head, *carriage.Fault) {
	h, refused := sdl.ReadHead(body, formOf(form), sdl.Limits{MaxBytes: max(1, len(body))})
	if refused != nil {
		return carriage.Head{}, faultOf(refused, false)
	}
	return carriage.Head(h), nil
}

// Refusal implements Onward of the profile.
func (Heads) Refusal(form carriage.Form, f *carriage.Fault) []byte {
	return formOf(form).Append(nil, sdl.ErrorEnvelope(canonical.Value{}, errorOf(f), sdl.Writing{}))
}

// errorOf converts a fault of the profile into an error of the language.
func errorOf(f *carriage.Fault) *sdl.Error {
	refused := &sdl.Error{Code: sdl.Code(f.Code), Retryable: f.Retryable}
	var details []canonical.Member
	for _, m := range []struct{ name, text string }{{"reason", f.Reason}, {"text", f.Text}} {
		if m.text != "" {
			details = append(details, canonical.Member{Name: m.name, Value: canonical.String(m.text)})
		}
	}
	if len(details) > 0 {
		refused.Details = canonical.Object(details...)
	}
	return refused
}
