package sdl_test

import (
	"testing"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// Whatever arrives is refused or checked, means the same in both forms, and is
// answered by an envelope.
func FuzzEnvelope(f *testing.F) {
	v := state(f)
	f.Add(v.AppendJSON(nil))
	f.Add(v.AppendCBOR(nil))
	v = v.With("sec", parse(f, `{"mode":"sig","kid":"k","sig":{"alg":"ed25519","value":""},"replay":{"nonce":"n","exp":"2026-03-01T12:05:00Z"}}`))
	v = v.With("trace", parse(f, `{"root_id":"r","span_id":"s","hops":8}`)).With("schema", parse(f, weak))
	f.Add(v.AppendJSON(nil))
	f.Add(set(f, v.With("sec", parse(f, sealed)), "payload", "null").AppendCBOR(nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		form, refused := sdl.FormOf(body)
		var v canonical.Value
		if refused == nil {
			v, refused = sdl.Decode(body, form, sdl.Limits{})
		}
		if refused == nil {
			_, refused = sdl.Validate(v, sdl.Options{Now: now})
			again := verdict(refused)
			for _, form := range []sdl.Form{sdl.JSON, sdl.CBOR} {
				w, refused := sdl.Decode(form.Append(nil, v), form, sdl.Limits{})
				if refused != nil {
					continue // the other form is longer than a body may be
				}
				if got := validate(w, sdl.Options{}); got != again {
					t.Errorf("%v: %s, want %s", form, got, again)
				}
			}
		}
		if refused == nil {
			refused = sdl.NoHandler("x", nil)
		}
		if got := validate(sdl.ErrorEnvelope(v, refused, sdl.Writing{Now: now}), sdl.Options{}); got != accepted {
			t.Errorf("the answer: %s", got)
		}
	})
}

func BenchmarkDecodeAndValidate(b *testing.B) {
	own := set(b, state(b), "schema", weak)
	for name, v := range map[string]canonical.Value{"built-in schema": state(b), "own schema": own} {
		for _, form := range []sdl.Form{sdl.JSON, sdl.CBOR} {
			body := form.Append(nil, v)
			b.Run(name+" "+form.String(), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					v, refused := sdl.Decode(body, form, sdl.Limits{})
					if refused != nil {
						b.Fatal(refused)
					}
					if _, refused := sdl.Validate(v, sdl.Options{}); refused != nil {
						b.Fatal(refused)
					}
				}
			})
		}
	}
}
