package sdl_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

func FuzzEnvelope(f *testing.F) {
	v := state(f)
	f.Add(v.AppendJSON(nil))
	f.Add(v.AppendCBOR(nil))
	v = v.With("sec", parse(f, `{"mode":"sig","kid":"k","sig":{"alg":"ed25519","value":""},"replay":{"nonce":"n","exp":"2026-03-01T12:05:00Z"}}`))
	v = v.With("trace", parse(f, `{"root_id":"r","span_id":"s","hops":8}`)).With("schema", parse(f, weak))
	f.Add(v.AppendJSON(nil))
	f.Add(set(f, v.With("sec", parse(f, sealed)), "payload", "null").AppendCBOR(nil))
	f.Fuzz(survives)
}

// survives wants of a body, whatever it is, that it is refused or accepted alike in
// both forms, and answered by an envelope.
func survives(t *testing.T, body []byte) {
	form, refused := sdl.FormOf(body)
	var v canonical.Value
	if refused == nil {
		v, refused = sdl.Decode(body, form, sdl.Limits{})
	}
	if refused == nil {
		_, refused = sdl.Validate(v, sdl.Options{Now: now})
		first := verdict(refused)
		for _, form := range []sdl.Form{sdl.JSON, sdl.CBOR} {
			w, refused := sdl.Decode(form.Append(nil, v), form, sdl.Limits{})
			if refused != nil {
				continue // this form is longer than a body may be
			}
			if got := validate(w, sdl.Options{}); got != first {
				t.Errorf("%v: %s, want %s", form, got, first)
			}
		}
	}
	if refused == nil {
		refused = sdl.NoHandler("x", nil)
	}
	if got := validate(sdl.ErrorEnvelope(v, refused, sdl.Writing{Now: now}), sdl.Options{}); got != accepted {
		t.Errorf("the answer: %s", got)
	}
}

func TestMutationsAreSurvived(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	v := state(t).With("trace", parse(t, `{"root_id":"r","span_id":"s","hops":8}`)).With("schema", parse(t, weak))
	for _, form := range []sdl.Form{sdl.JSON, sdl.CBOR} {
		for range 250 {
			body := form.Append(nil, v)
			for range 1 + random.IntN(3) {
				at, n := random.IntN(len(body)), random.IntN(20)
				switch random.IntN(3) {
				case 0: // another octet
					body[at] = byte(random.IntN(256))
				case 1: // a piece less
					body = slices.Delete(body, at, min(at+n, len(body)))
				case 2: // a piece of elsewhere
					from := random.IntN(len(body))
					body = slices.Insert(body, at, slices.Clone(body[from:min(from+n, len(body))])...)
				}
			}
			survives(t, body)
		}
	}
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
