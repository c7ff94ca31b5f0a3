package serve

import (
	"errors"
	"fmt"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
)

// ErrSecured says that a secured request must not be downgraded: an unsigned error could
// come from anyone and must not remove a signature or encryption.
var ErrSecured = errors.New("serve: a signed or encrypted request is not downgraded")

// ErrNoDowngrade says that the receiver supports no alternative to the request.
var ErrNoDowngrade = errors.New("serve: nothing that the receiver supports takes the place of the request")

// Lower returns the highest supported version below that of ct in the same family, or ""
// (A2A-SDL §10.3).
func Lower(ct string, supported []string) string {
	family, version, ok := sdl.ParseContentType(ct)
	if !ok {
		return ""
	}
	best, found := int64(0), ""
	for _, offer := range supported {
		f, v, ok := sdl.ParseContentType(offer)
		if ok && f == family && v < version && (found == "" || v > best) {
			best, found = v, offer
		}
	}
	return found
}

// Downgrade returns the request to send after an answer UNSUPPORTED_CT: the same payload in
// a lower version of its content type, or a negotiation.v1 about it. The error is that of
// the answer if it has another code, ErrSecured if the request was signed or encrypted, and
// ErrNoDowngrade if there is no alternative.
func Downgrade(request, answer canonical.Value, w sdl.Writing) (canonical.Value, error) {
	payload := answer.Get("payload")
	if ct := text(answer.Get("ct")); ct != sdl.CTError || text(payload.Get("code")) != string(sdl.UnsupportedCT) {
		return canonical.Value{}, fmt.Errorf("serve: %s %s is not about the content type", ct, text(payload.Get("code")))
	}
	if seal.Mode(request) != seal.None {
		return canonical.Value{}, ErrSecured
	}
	wanted := text(request.Get("ct"))
	var supported []string
	negotiable := false
	for v := range payload.Get("details").Get("supported_ct").All() {
		ct := text(v)
		supported = append(supported, ct)
		negotiable = negotiable || ct == sdl.CTNegotiation
	}
	if ct := Lower(wanted, supported); ct != "" {
		if again, ok := rebuild(request, ct, request.Get("payload"), w); ok {
			return again, nil
		}
	}
	if negotiable && wanted != sdl.CTNegotiation {
		one := object(member("ct", canonical.Strings(wanted)))
		again, ok := rebuild(request, sdl.CTNegotiation, object(
			member("need", one),
			member("have", one),
			member("ask", canonical.Strings("downgrade_ct", "send_embedded_schema")),
			member("supported_ct", canonical.Strings(sdl.ContentTypes()...)),
		), w)
		if ok {
			return again, nil
		}
	}
	return canonical.Value{}, ErrNoDowngrade
}

// rebuild returns a request with another content type and payload; ok is false if it would
// be invalid.
func rebuild(request canonical.Value, ct string, payload canonical.Value, w sdl.Writing) (canonical.Value, bool) {
	if !sdl.IsContentType(ct) {
		return canonical.Value{}, false
	}
	fresh := sdl.New(sdl.TypeReq, ct, sdl.Identity{}, sdl.Identity{}, payload, w)
	v := request
	for _, name := range []string{"id", "ts", "ct", "schema", "payload"} {
		v = v.With(name, fresh.Get(name))
	}
	_, refused := sdl.Validate(v, sdl.Options{Limits: w.Limits, Now: w.Now})
	return v, refused == nil
}
