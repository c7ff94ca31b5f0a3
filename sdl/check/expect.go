package check

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
)

// expectation is a body with its expected outcome.
type expectation struct {
	delivery
	setup  setup
	times  int
	wanted []want

	equivalent canonical.Value // of a CBOR body, null if not given
	measured   *shape          // canonical_json
	signature  *shape
	payload    canonical.Value // decrypted_payload, null if not given
	decryptKid string
	decryptKey *ecdh.PrivateKey // of decrypt_with
	keys       *Keys
}

// loadExpect reads an expectation and its body.
func loadExpect(row canonical.Value, dir string, keys *Keys) (Case, error) {
	s := newShape(row)
	name := s.text("case")
	x := &expectation{keys: keys}
	if err := x.load(filepath.Join(dir, s.text("body_file"))); err != nil {
		return Case{}, err
	}
	if s.has("content_type") {
		if wrapped := x.mediaType; wrapped != "" && wrapped != s.text("content_type") {
			s.fault("content_type", "the body says it is %q", wrapped)
		}
		x.mediaType = s.text("content_type")
	}
	now := s.time("now")
	server := s.object("server")
	x.times = 1
	if server.has("deliver") {
		x.times = server.count("deliver")
	}
	x.setup = readSetup(server, now)
	x.limits = x.setup.options.Limits
	for _, e := range s.elements("expected") {
		x.wanted = append(x.wanted, readWant(e))
	}
	if len(x.wanted) != x.times || x.times == 0 {
		s.fault("expected", "has %d results for %d deliveries", len(x.wanted), x.times)
	}
	if s.has("canonical_json") {
		x.measured = s.object("canonical_json")
		x.measured.count("bytes")
		x.measured.text("sha256")
		x.measured.done()
	}
	if s.has("signature") {
		x.signature = readSignature(s.object("signature"))
	}
	if s.has("decrypted_payload") {
		x.payload = s.get("decrypted_payload")
	}
	if s.has("decrypt_with") {
		x.readKey(s.object("decrypt_with"))
	}
	s.done()
	return Case{name, func(ctx context.Context) ([]Result, []string) {
		if len(*s.diff) > 0 {
			return nil, *s.diff
		}
		return x.play(ctx)
	}}, nil
}

// load reads the body. A CBOR body may be wrapped in JSON, as base64url with the equivalent
// JSON.
func (x *expectation) load(file string) error {
	octets, err := os.ReadFile(file) //nolint:gosec // cases are trusted
	if err != nil {
		return err
	}
	x.body = octets
	wrapped, _ := canonical.ParseJSON(bytes.TrimSpace(octets)) // null if it is no JSON
	if !wrapped.Has("body_base64url") {
		return nil
	}
	s := newShape(wrapped)
	if x.body, err = seal.DecodeB64(s.text("body_base64url")); err != nil {
		return fmt.Errorf("check: %s: body_base64url: %w", file, err)
	}
	if s.has("content_type") {
		x.mediaType = s.text("content_type")
	}
	if s.has("equivalent_json") {
		x.equivalent = s.get("equivalent_json")
	}
	if s.done(); len(*s.diff) > 0 {
		return fmt.Errorf("check: %s: %s", file, (*s.diff)[0])
	}
	return nil
}

func (x *expectation) readKey(s *shape) {
	var err error
	x.decryptKid = s.text("kid")
	if x.decryptKey, err = seal.ParseDecryptKey(s.text("private_key_b64")); err != nil {
		s.fault("private_key_b64", "%v", err)
	}
	s.done()
}

func readSignature(s *shape) *shape {
	s.text("kid")
	s.text("signing_input_sha256")
	s.count("signing_input_bytes")
	readForm(s)
	if s.has("other_form") {
		other := s.object("other_form")
		other.text("sha256")
		other.count("bytes")
		readForm(other)
		other.done()
	}
	s.done()
	return s
}

func readForm(s *shape) seal.Form {
	switch form := s.text("form"); form {
	case seal.CBOR.String():
		return seal.CBOR
	case seal.JSON.String():
		return seal.JSON
	default:
		s.fault("form", "%q: want %v or %v", form, seal.CBOR, seal.JSON)
		return seal.CBOR
	}
}

func (x *expectation) play(ctx context.Context) ([]Result, []string) {
	server, err := x.setup.server()
	if err != nil {
		return nil, []string{"server: " + err.Error()}
	}
	var results []Result
	var diff []string
	for i := range x.times {
		o := x.setup.take(ctx, server, x.delivery)
		results = append(results, o.result)
		diff = append(diff, x.wanted[i].compare(&o)...)
		if !x.setup.validateOnly && !x.payload.IsNull() && x.wanted[i].outcome == accepted {
			diff = append(diff, same("decrypted_payload at the handler", o.payload, x.payload)...)
		}
	}
	return results, append(diff, x.examine()...)
}

// examine compares the properties of the body.
func (x *expectation) examine() (diff []string) {
	if x.measured == nil && x.signature == nil && x.equivalent.IsNull() && x.payload.IsNull() && x.decryptKey == nil {
		return nil
	}
	form, refusal := sdl.FormOfMedia(x.mediaType)
	if refusal != nil {
		return []string{"content_type: " + refusal.Error()}
	}
	v, refusal := sdl.Decode(x.body, form, sdl.Limits{MaxBytes: max(1, len(x.body))})
	if refusal != nil {
		return []string{"body: " + refusal.Error()}
	}
	if !x.equivalent.IsNull() {
		diff = append(diff, same("equivalent_json", v, x.equivalent)...)
	}
	if m := x.measured; m != nil {
		diff = append(diff, same("canonical_json.bytes", canonical.Int(int64(v.JSONSize())), m.value.Get("bytes"))...)
		diff = append(diff, same("canonical_json.sha256", canonical.String(canonical.Hash(v)), m.value.Get("sha256"))...)
	}
	if x.signature != nil {
		diff = append(diff, x.sign(v)...)
	}
	return append(diff, x.decrypt(v)...)
}

// sign compares the signed octets and their form.
func (x *expectation) sign(v canonical.Value) []string {
	s := x.signature
	diff := same("signature.kid", v.Get("sec").Get("kid"), s.value.Get("kid"))
	form := readForm(s)
	diff = append(diff, input(s.path, v, form, s.value.Get("signing_input_bytes"), s.value.Get("signing_input_sha256"))...)
	if other := s.value.Get("other_form"); !other.IsNull() {
		o := s.within("other_form", other)
		otherForm := readForm(o)
		if otherForm == form {
			diff = append(diff, o.path+"form: is the form used")
		}
		diff = append(diff, input(o.path, v, otherForm, other.Get("bytes"), other.Get("sha256"))...)
	}
	if x.wanted[0].outcome != accepted {
		return diff // the signature may be what is wrong
	}
	kid, _ := v.Get("sec").Get("kid").Text()
	key, ok := x.setup.verifyKeys[kid]
	if !ok {
		key, ok = x.keys.verifyKey(kid)
	}
	if !ok {
		return append(diff, fmt.Sprintf("signature.kid: neither the policy nor the file of keys has a key %q", kid))
	}
	if used, err := seal.Verify(v, key); err != nil || used != form {
		diff = append(diff, fmt.Sprintf("signature.form: got %v (%v), want %v", used, err, form))
	}
	return diff
}

func input(path string, v canonical.Value, form seal.Form, size, hash canonical.Value) []string {
	octets := seal.SigningInput(v, form)
	sum := sha256.Sum256(octets)
	diff := same(path+"bytes of "+form.String(), canonical.Int(int64(len(octets))), size)
	return append(diff, same(path+"sha256 of "+form.String(), canonical.String("sha256:"+hex.EncodeToString(sum[:])), hash)...)
}

// decrypt compares the payload under the key of decrypt_with, or else under those of
// the policy.
func (x *expectation) decrypt(v canonical.Value) []string {
	switch {
	case x.payload.IsNull() && x.decryptKey == nil:
		return nil
	case x.payload.IsNull():
		return []string{"decrypt_with: there is no decrypted_payload to compare"}
	}
	payload, err := seal.Decrypt(v, func(kid string) *ecdh.PrivateKey {
		if x.decryptKey == nil {
			return x.setup.decryptKeys[kid]
		}
		if kid == x.decryptKid {
			return x.decryptKey
		}
		return nil
	})
	if err != nil {
		return []string{"decrypted_payload: " + err.Error()}
	}
	return same("decrypted_payload", payload, x.payload)
}
