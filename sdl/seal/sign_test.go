package seal

import (
	"crypto/ed25519"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/sdl/canonical"
)

func mustParse(t testing.TB, text string) canonical.Value {
	t.Helper()
	v, err := canonical.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// letter is an envelope with all that a signature must cover: an integer and a float
// of the same value, members that nobody knows, names that CBOR and JSON sort
// differently.
const letter = `{"v":1,"id":"m-1","ts":"2030-05-01T08:00:00Z","type":"req","ct":"task.v1",` +
	`"from":{"agent_id":"urn:agent:gardener","name":"g","instance":"i","role":"r"},` +
	`"to":{"agent_id":"urn:agent:miller","name":"m","instance":"i","role":"r"},` +
	`"cap":{},"schema":{"kind":"embedded","embedded":{"type":"object"},"id":"sha256:00"},` +
	`"payload":{"aa":1,"b":1.0,"é":[true,null,1e30],"z":"weigh the flour"},"x-note":"kept",` +
	`"trace":{"root_id":"r","span_id":"s","hops":0}}`

func signer(t testing.TB, first byte, form Form) Signer {
	t.Helper()
	key, err := GenerateSigning(seeded(first))
	if err != nil {
		t.Fatal(err)
	}
	return Signer{Kid: "urn:agent:gardener#a", Key: key, Form: form}
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return ed25519.PublicKey(key[32:]) }

func sign(t testing.TB, s Signer, envelope canonical.Value) canonical.Value {
	t.Helper()
	signed, err := s.Sign(envelope)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func TestVerifyTakesEitherFormAndSaysWhich(t *testing.T) {
	for _, form := range []Form{CBOR, JSON} {
		s := signer(t, 1, form)
		signed := sign(t, s, mustParse(t, letter))
		// As it arrives: in the other encoding as well.
		overJSON := mustParse(t, string(signed.AppendJSON(nil)))
		overCBOR, err := canonical.ParseCBOR(signed.AppendCBOR(nil))
		if err != nil {
			t.Fatal(err)
		}
		for _, arrived := range []canonical.Value{signed, overJSON, overCBOR} {
			if got, err := Verify(arrived, public(s.Key)); err != nil || got != form {
				t.Errorf("%v: got %v, %v", form, got, err)
			}
		}
		if mode := Mode(signed); mode != Sig {
			t.Errorf("mode %q, want %q", mode, Sig)
		}
		if kid, _ := signed.Get("sec").Get("kid").Text(); kid != s.Kid {
			t.Errorf("kid %q, want %q", kid, s.Kid)
		}
	}
}

func TestSignUsesCBORByDefault(t *testing.T) {
	s := signer(t, 1, JSON)
	signed := sign(t, Signer{Kid: s.Kid, Key: s.Key}, mustParse(t, letter))
	if form, err := Verify(signed, public(s.Key)); err != nil || form != CBOR {
		t.Errorf("got %v, %v", form, err)
	}
}

func TestSigningInputsOfTheTwoFormsNeverCoincide(t *testing.T) {
	signed := sign(t, signer(t, 1, CBOR), mustParse(t, letter))
	if first := SigningInput(signed, CBOR)[0]; first < 0xa0 || first > 0xbb {
		t.Errorf("CBOR begins with %#x", first)
	}
	if first := SigningInput(signed, JSON)[0]; first != '{' {
		t.Errorf("JSON begins with %#x", first)
	}
}

func TestSignKeepsAndCoversAllThatIsThere(t *testing.T) {
	s := signer(t, 1, CBOR)
	envelope := mustParse(t, letter).With("sec", mustParse(t, `{"mode":"none","replay":{"nonce":"n","exp":"2030-05-01T08:05:00Z"},"session":{"binding_id":"b"},"x":1}`))
	signed := sign(t, s, envelope)
	bare := signed.Get("sec").Without("sig").Without("kid").With("mode", canonical.String(None))
	if !signed.With("sec", bare).Equal(envelope) {
		t.Errorf("more than mode, kid and sig has changed: %s", signed.AppendJSON(nil))
	}
	// Each leaf that changes, and each member that comes or goes, is seen.
	changes := 0
	for changed := range mutations(signed) {
		changes++
		if _, err := Verify(changed, public(s.Key)); err == nil {
			t.Errorf("not seen: %s", changed.AppendJSON(nil))
		}
	}
	if changes < 40 {
		t.Errorf("only %d changes were tried", changes)
	}
}

// mutations yields v with one leaf changed, one member removed or one added, for
// every place in it. The signature itself is not touched: it is not covered.
func mutations(v canonical.Value) func(yield func(canonical.Value) bool) {
	return func(yield func(canonical.Value) bool) {
		switch v.Kind() {
		case canonical.KindObject:
			if !yield(v.With("added", canonical.Value{})) {
				return
			}
			for name, m := range v.Members() {
				if name == "value" {
					continue
				}
				if !yield(v.Without(name)) {
					return
				}
				for changed := range mutations(m) {
					if !yield(v.With(name, changed)) {
						return
					}
				}
			}
		case canonical.KindArray:
			elements := slices.Collect(v.All())
			for i, e := range elements {
				for changed := range mutations(e) {
					other := slices.Clone(elements)
					other[i] = changed
					if !yield(canonical.Array(other...)) {
						return
					}
				}
			}
			yield(canonical.Array(append(elements, canonical.Value{})...))
		case canonical.KindString:
			s, _ := v.Text()
			_ = yield(canonical.String(s+"x")) && yield(canonical.String(""))
		case canonical.KindInteger:
			i, _ := v.Int64()
			_ = yield(canonical.Int(i+1)) && yield(canonical.Float(float64(i)))
		default:
			yield(canonical.String("changed"))
		}
	}
}

func TestSignRaisesTheMode(t *testing.T) {
	s := signer(t, 1, CBOR)
	for was, want := range map[string]string{None: Sig, Sig: Sig, Enc: EncSig, EncSig: EncSig} {
		envelope := mustParse(t, letter).With("sec", canonical.Object().With("mode", canonical.String(was)))
		if got := Mode(sign(t, s, envelope)); got != want {
			t.Errorf("%q became %q, want %q", was, got, want)
		}
	}
	if got := Mode(sign(t, s, mustParse(t, letter).With("sec", canonical.Value{}))); got != Sig {
		t.Errorf("null became %q", got)
	}
}

func TestSignRefusesWhatItCanNotSign(t *testing.T) {
	s := signer(t, 1, CBOR)
	for name, test := range map[string]struct {
		signer   Signer
		envelope string
	}{
		"no kid":           {Signer{Key: s.Key}, letter},
		"no key":           {Signer{Kid: "k"}, letter},
		"no object":        {s, `[]`},
		"sec is no object": {s, `{"sec":[]}`},
		"unknown mode":     {s, `{"sec":{"mode":"SIG"}}`},
		"no mode":          {s, `{"sec":{}}`},
	} {
		if _, err := test.signer.Sign(mustParse(t, test.envelope)); err == nil {
			t.Errorf("%s: signed", name)
		}
	}
}

// order is the order of the group of Ed25519.
var order, _ = new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)

func TestVerifyRefusesOtherTextsOfASignature(t *testing.T) {
	s := signer(t, 1, CBOR)
	signed := sign(t, s, mustParse(t, letter))
	text, _ := signed.Get("sec").Get("sig").Get("value").Text()
	octets, err := DecodeB64(text)
	if err != nil {
		t.Fatal(err)
	}

	// S and S + L are the same number to who does not look closely.
	scalar := slices.Clone(octets[32:])
	slices.Reverse(scalar)
	larger := new(big.Int).Add(new(big.Int).SetBytes(scalar), order).FillBytes(make([]byte, 32))
	slices.Reverse(larger)
	malleable := append(slices.Clone(octets[:32]), larger...)

	last := text[len(text)-1]
	stray := text[:len(text)-1] + string(last+1) // four unused bits
	for name, value := range map[string]string{
		"S above the order": EncodeB64(malleable),
		"padded":            text + "==",
		"stray bits":        stray,
		"junk":              text[:40] + "." + text[40:],
		"line break":        text + "\n",
		"63 octets":         EncodeB64(octets[:63]),
		"65 octets":         EncodeB64(append(slices.Clone(octets), 0)),
		"nothing":           "",
		"zeros":             EncodeB64(make([]byte, 64)),
		"R and S exchanged": EncodeB64(append(slices.Clone(octets[32:]), octets[:32]...)),
		"two of them":       text + text,
		"standard alphabet": strings.NewReplacer("-", "+", "_", "/").Replace(text) + "==",
	} {
		if _, err := Verify(withSignature(signed, value), public(s.Key)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	for bit := range len(octets) * 8 {
		flipped := slices.Clone(octets)
		flipped[bit/8] ^= 1 << (bit % 8)
		if _, err := Verify(withSignature(signed, EncodeB64(flipped)), public(s.Key)); err == nil {
			t.Errorf("bit %d was flipped and not seen", bit)
		}
	}
}

func TestVerifyRefusesKeysAndBlocksThatDoNotFit(t *testing.T) {
	s := signer(t, 1, CBOR)
	signed := sign(t, s, mustParse(t, letter))
	if _, err := Verify(signed, public(signer(t, 2, CBOR).Key)); err == nil {
		t.Error("another key fits")
	}
	if _, err := Verify(signed, nil); err == nil {
		t.Error("no key fits")
	}
	if _, err := Verify(signed, public(s.Key)[:31]); err == nil {
		t.Error("31 octets of the key fit")
	}
	sec := signed.Get("sec")
	for name, changed := range map[string]canonical.Value{
		"no sec":             {},
		"no block":           sec.Without("sig"),
		"no algorithm":       sec.With("sig", sec.Get("sig").Without("alg")),
		"other case":         sec.With("sig", sec.Get("sig").With("alg", canonical.String("Ed25519"))),
		"no value":           sec.With("sig", sec.Get("sig").Without("value")),
		"value is no string": sec.With("sig", sec.Get("sig").With("value", canonical.Int(1))),
	} {
		if _, err := Verify(signed.With("sec", changed), public(s.Key)); err == nil {
			t.Errorf("%s: verified", name)
		}
	}
	// Signed with the algorithm named otherwise, it is still not ed25519.
	renamed := signed.With("sec", sec.With("sig", sec.Get("sig").With("alg", canonical.String("none"))))
	renamed = withSignature(renamed, EncodeB64(ed25519.Sign(s.Key, SigningInput(renamed, CBOR))))
	if _, err := Verify(renamed, public(s.Key)); err == nil {
		t.Error("algorithm none: verified")
	}
}

func TestDetachedSignaturesCoverCanonicalJSON(t *testing.T) {
	s := signer(t, 3, CBOR)
	document := mustParse(t, `{ "b" : 1, "a" : [1.0, "\u00e9"] }`)
	signature := SignDetached(document, s.Key)
	if want := EncodeB64(ed25519.Sign(s.Key, []byte(`{"a":[1.0,"é"],"b":1}`))); signature != want {
		t.Errorf("got %s, want %s", signature, want)
	}
	if err := VerifyDetached(document, signature, public(s.Key)); err != nil {
		t.Error(err)
	}
	for name, test := range map[string]struct {
		document, signature string
	}{
		"another document": {`{"b":1,"a":[1,"é"]}`, signature},
		"padded":           {`{"b":1,"a":[1.0,"é"]}`, signature + "=="},
		"nothing":          {`{"b":1,"a":[1.0,"é"]}`, ""},
	} {
		if err := VerifyDetached(mustParse(t, test.document), test.signature, public(s.Key)); err == nil {
			t.Errorf("%s: verified", name)
		}
	}
	if err := VerifyDetached(document, signature, public(signer(t, 4, CBOR).Key)); err == nil {
		t.Error("another key fits")
	}
}

func BenchmarkVerify(b *testing.B) {
	for _, form := range []Form{CBOR, JSON} {
		b.Run(form.String(), func(b *testing.B) {
			s := signer(b, 1, form)
			signed := sign(b, s, mustParse(b, letter))
			b.ReportAllocs()
			b.SetBytes(int64(signed.JSONSize()))
			for b.Loop() {
				if _, err := Verify(signed, public(s.Key)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
