package sdlagent

import (
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// Heads read between whom envelopes are, and build the errors of the language for those
// that are refused, for an endpoint that only passes them on.
type Heads struct{}

// Head is that of Onward of the profile.
func (Heads) Head(form carriage.Form, body []byte) (carriage.Head, *carriage.Fault) {
	h, refused := sdl.ReadHead(body, formOf(form), sdl.Limits{MaxBytes: max(1, len(body))})
	if refused != nil {
		return carriage.Head{}, faultOf(refused, false)
	}
	return carriage.Head(h), nil
}

// Refusal is that of Onward of the profile.
func (Heads) Refusal(form carriage.Form, f *carriage.Fault) []byte {
	return formOf(form).Append(nil, sdl.ErrorEnvelope(canonical.Value{}, errorOf(f), sdl.Writing{}))
}

// errorOf is the error of the language for a fault of the profile.
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
