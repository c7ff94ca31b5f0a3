package seal

import (
	"bytes"
	"crypto/ecdh"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/sdl/canonical"
)

func decryptKey(t testing.TB, first byte) *ecdh.PrivateKey {
	t.Helper()
	key, err := GenerateDecrypt(seeded(first))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// holding returns what Decrypt asks for keys.
func holding(kid string, key *ecdh.PrivateKey) func(string) *ecdh.PrivateKey {
	return func(asked string) *ecdh.PrivateKey {
		if asked != kid {
			return nil
		}
		return key
	}
}

func encrypt(t testing.TB, envelope canonical.Value, to ...Recipient) canonical.Value {
	t.Helper()
	sealed, err := Encrypt(envelope, nil, to...)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestEncryptHidesThePayloadAndDecryptRestoresIt(t *testing.T) {
	a, b := decryptKey(t, 10), decryptKey(t, 11)
	envelope := mustParse(t, letter)
	sealed := encrypt(t, envelope, Recipient{"miller#1", a.PublicKey()}, Recipient{"miller#2", b.PublicKey()})
	if !sealed.Has("payload") || !sealed.Get("payload").IsNull() {
		t.Errorf("payload is %s", sealed.Get("payload").AppendJSON(nil))
	}
	if mode := Mode(sealed); mode != Enc {
		t.Errorf("mode %q, want %q", mode, Enc)
	}
	if bytes.Contains(sealed.AppendJSON(nil), []byte("flour")) {
		t.Error("the payload can be read")
	}
	for kid, key := range map[string]*ecdh.PrivateKey{"miller#1": a, "miller#2": b} {
		payload, err := Decrypt(sealed, holding(kid, key))
		if err != nil {
			t.Errorf("%s: %v", kid, err)
		}
		if !payload.Equal(envelope.Get("payload")) {
			t.Errorf("%s: got %s", kid, payload.AppendJSON(nil))
		}
	}
	if payload, err := Decrypt(sealed, holding("miller#3", a)); err == nil {
		t.Errorf("a kid that is not named reads %s", payload.AppendJSON(nil))
	}
	if payload, err := Decrypt(sealed, holding("miller#1", b)); err == nil {
		t.Errorf("another key reads %s", payload.AppendJSON(nil))
	}
}

func TestEncryptThenSignCoversTheCiphertext(t *testing.T) {
	key, s := decryptKey(t, 10), signer(t, 1, CBOR)
	sealed := sign(t, s, encrypt(t, mustParse(t, letter), Recipient{"miller#1", key.PublicKey()}))
	if mode := Mode(sealed); mode != EncSig {
		t.Errorf("mode %q, want %q", mode, EncSig)
	}
	if _, err := Verify(sealed, public(s.Key)); err != nil {
		t.Error(err)
	}
	if _, err := Decrypt(sealed, holding("miller#1", key)); err != nil {
		t.Error(err)
	}
	for changed := range mutations(sealed.Get("sec").Get("enc")) {
		other := sealed.With("sec", sealed.Get("sec").With("enc", changed))
		if _, err := Verify(other, public(s.Key)); err == nil {
			t.Errorf("not seen: %s", changed.AppendJSON(nil))
		}
	}
}

func TestEncryptRaisesTheMode(t *testing.T) {
	to := Recipient{"miller#1", decryptKey(t, 10).PublicKey()}
	for was, want := range map[string]string{None: Enc, Enc: Enc, Sig: EncSig, EncSig: EncSig} {
		envelope := mustParse(t, letter).With("sec", canonical.Object().With("mode", canonical.String(was)))
		if got := Mode(encrypt(t, envelope, to)); got != want {
			t.Errorf("%q became %q, want %q", was, got, want)
		}
	}
}

func TestEncryptRefusesWhatItCanNotEncrypt(t *testing.T) {
	key := decryptKey(t, 10).PublicKey()
	zero, err := ecdh.X25519().NewPublicKey(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string][]Recipient{
		"nobody":         nil,
		"no kid":         {{"", key}},
		"no key":         {{"k", nil}},
		"low order":      {{"k", zero}},
		"one of several": {{"k", key}, {"l", zero}},
	} {
		if _, err := Encrypt(mustParse(t, letter), nil, to...); err == nil {
			t.Errorf("%s: encrypted", name)
		}
	}
	for _, envelope := range []string{`[]`, `{"sec":1}`, `{"sec":{"mode":"ENC"}}`} {
		if _, err := Encrypt(mustParse(t, envelope), nil, Recipient{"k", key}); err == nil {
			t.Errorf("%s: encrypted", envelope)
		}
	}
	if _, err := Encrypt(mustParse(t, letter), strings.NewReader("too little"), Recipient{"k", key}); err == nil {
		t.Error("encrypted with ten octets of randomness")
	}
}

func TestEncryptTakesSecretsInTheOrderItSays(t *testing.T) {
	key := decryptKey(t, 10)
	random := seeded(0)
	sealed, err := Encrypt(mustParse(t, letter), random, Recipient{"k", key.PublicKey()}, Recipient{"l", key.PublicKey()})
	if err != nil {
		t.Fatal(err)
	}
	if read := random.Size() - int64(random.Len()); read != 32+12+2*(32+12) {
		t.Errorf("%d octets were drawn", read)
	}
	enc := sealed.Get("sec").Get("enc")
	if nonce, _ := enc.Get("nonce").Text(); nonce != EncodeB64(sequence(32, 12)) {
		t.Errorf("content nonce %s", nonce)
	}
	for i := range 2 {
		entry := enc.Get("recipients").At(i)
		at := byte(44 + 44*i)
		ephemeral, err := ecdh.X25519().NewPrivateKey(sequence(at, 32))
		if err != nil {
			t.Fatal(err)
		}
		if eph, _ := entry.Get("eph").Text(); eph != FormatB64(ephemeral.PublicKey()) {
			t.Errorf("entry %d: eph %s", i, eph)
		}
		if wn, _ := entry.Get("wn").Text(); wn != EncodeB64(sequence(at+32, 12)) {
			t.Errorf("entry %d: wn %s", i, wn)
		}
	}
}

func sequence(first byte, n int) []byte {
	octets := make([]byte, n)
	for i := range octets {
		octets[i] = first + byte(i)
	}
	return octets
}

// withEntries returns a sealed envelope with other recipients.
func withEntries(sealed canonical.Value, entries ...canonical.Value) canonical.Value {
	sec := sealed.Get("sec")
	return sealed.With("sec", sec.With("enc", sec.Get("enc").With("recipients", canonical.Array(entries...))))
}

func TestDecryptTriesEveryEntryOfTheFirstKidItHolds(t *testing.T) {
	key, other := decryptKey(t, 10), decryptKey(t, 11)
	sealed := encrypt(t, mustParse(t, letter),
		Recipient{"mine", other.PublicKey()}, Recipient{"mine", key.PublicKey()}, Recipient{"spare", key.PublicKey()})
	entries := slices.Collect(sealed.Get("sec").Get("enc").Get("recipients").All())
	wrong, good, spare := entries[0], entries[1], entries[2]
	keys := func(kid string) *ecdh.PrivateKey {
		if kid == "mine" || kid == "spare" {
			return key
		}
		return nil
	}
	zero := canonical.String(EncodeB64(make([]byte, 32)))
	for name, test := range map[string]struct {
		entries []canonical.Value
		opens   bool
	}{
		"a wrong one first":             {[]canonical.Value{wrong, good}, true},
		"broken ones first":             {[]canonical.Value{good.Without("ek"), good.With("wn", canonical.Int(1)), good.With("eph", canonical.String("A")), good}, true},
		"a point of low order first":    {[]canonical.Value{good.With("eph", zero), good}, true},
		"entries of others first":       {[]canonical.Value{good.With("kid", canonical.String("not mine")), good}, true},
		"no object first":               {[]canonical.Value{canonical.Int(1), {}, canonical.Array(), good}, true},
		"entries of others between":     {[]canonical.Value{wrong, spare, good}, true},
		"a wrong one only":              {[]canonical.Value{wrong}, false},
		"the second kid is not tried":   {[]canonical.Value{wrong, spare}, false},
		"none":                          {nil, false},
		"the sixteenth":                 {append(slices.Repeat([]canonical.Value{wrong}, 15), good), true},
		"the seventeenth is not tried":  {append(slices.Repeat([]canonical.Value{wrong}, 16), good), false},
		"behind many entries of others": {append(slices.Repeat([]canonical.Value{good.With("kid", canonical.String("not mine"))}, 100), good), true},
	} {
		payload, err := Decrypt(withEntries(sealed, test.entries...), keys)
		if (err == nil) != test.opens {
			t.Errorf("%s: %v", name, err)
		}
		if test.opens && payload.IsNull() {
			t.Errorf("%s: no payload", name)
		}
	}
}

func TestPR18DecryptRefusesASharedSecretOfZeros(t *testing.T) {
	key := decryptKey(t, 10)
	sealed := encrypt(t, mustParse(t, letter), Recipient{"k", key.PublicKey()})
	entry := sealed.Get("sec").Get("enc").Get("recipients").At(0)

	// Who sends a point of low order knows what both would share, and wraps with it.
	wrapping, err := wrapKey(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	contentKey := sequence(0, 32)
	forged, err := forge(wrapping, contentKey, sequence(1, 12))
	if err != nil {
		t.Fatal(err)
	}
	ciphertext, err := forge(contentKey, []byte(`{"b":1}`), sequence(1, 12))
	if err != nil {
		t.Fatal(err)
	}
	nonce := canonical.String(EncodeB64(sequence(1, 12)))
	sec := sealed.Get("sec")
	sealed = sealed.With("sec", sec.With("enc", sec.Get("enc").With("nonce", nonce).With("ciphertext", b64Value(ciphertext))))
	for _, u := range lowOrderU {
		eph, err := hex.DecodeString(u)
		if err != nil {
			t.Fatal(err)
		}
		changed := entry.With("eph", b64Value(eph)).With("ek", b64Value(forged)).With("wn", nonce)
		if payload, err := Decrypt(withEntries(sealed, changed), holding("k", key)); err == nil {
			t.Errorf("%s: opened %s", u, payload.AppendJSON(nil))
		}
	}
}

func TestPR18EveryFlippedBitOfTheCiphertextIsRefused(t *testing.T) {
	key := decryptKey(t, 10)
	sealed := encrypt(t, mustParse(t, `{"payload":{"a":1}}`), Recipient{"k", key.PublicKey()})
	sec := sealed.Get("sec")
	block := sec.Get("enc")
	entry := block.Get("recipients").At(0)
	flips := func(v canonical.Value, name string, with func(canonical.Value) canonical.Value) {
		text, ok := v.Get(name).Text()
		if !ok {
			t.Fatalf("no %s", name)
		}
		octets, err := DecodeB64(text)
		if err != nil {
			t.Fatal(err)
		}
		for bit := range len(octets) * 8 {
			// X25519 does not look at the top bit of a point (RFC 7748 §5).
			if name == "eph" && bit == 255 {
				continue
			}
			flipped := slices.Clone(octets)
			flipped[bit/8] ^= 1 << (bit % 8)
			if _, err := Decrypt(with(v.With(name, b64Value(flipped))), holding("k", key)); err == nil {
				t.Errorf("%s: bit %d was flipped and not seen", name, bit)
			}
		}
		for n := range octets {
			if _, err := Decrypt(with(v.With(name, b64Value(octets[:n]))), holding("k", key)); err == nil {
				t.Errorf("%s: %d of %d octets open", name, n, len(octets))
			}
		}
		longer := append(slices.Clone(octets), 0)
		if _, err := Decrypt(with(v.With(name, b64Value(longer))), holding("k", key)); err == nil {
			t.Errorf("%s: %d octets open", name, len(longer))
		}
		if _, err := Decrypt(with(v.With(name, canonical.String(text+"="))), holding("k", key)); err == nil {
			t.Errorf("%s: padded opens", name)
		}
	}
	inBlock := func(changed canonical.Value) canonical.Value { return sealed.With("sec", sec.With("enc", changed)) }
	inEntry := func(changed canonical.Value) canonical.Value { return withEntries(sealed, changed) }
	flips(block, "ciphertext", inBlock)
	flips(block, "nonce", inBlock)
	flips(entry, "ek", inEntry)
	flips(entry, "eph", inEntry)
	flips(entry, "wn", inEntry)
}

func TestPR18EveryFlippedBitOfASealedEnvelopeIsRefused(t *testing.T) {
	key, s := decryptKey(t, 10), signer(t, 1, CBOR)
	sealed := sign(t, s, encrypt(t, mustParse(t, `{"payload":{"a":1},"id":"m"}`), Recipient{"k", key.PublicKey()}))
	body := sealed.AppendJSON(nil)
	if _, err := Verify(mustParse(t, string(body)), public(s.Key)); err != nil {
		t.Fatalf("as it was sent: %v", err)
	}
	read := 0
	for bit := range len(body) * 8 {
		flipped := bytes.Clone(body)
		flipped[bit/8] ^= 1 << (bit % 8)
		arrived, err := canonical.ParseJSON(flipped)
		if err != nil {
			continue
		}
		read++
		if _, err := Verify(arrived, public(s.Key)); err == nil {
			t.Errorf("bit %d was flipped and not seen: %s", bit, flipped)
		}
	}
	if read < len(body) {
		t.Errorf("only %d of %d flips can be read at all", read, len(body)*8)
	}
}

func TestDecryptRefusesBlocksThatDoNotFit(t *testing.T) {
	key := decryptKey(t, 10)
	sealed := encrypt(t, mustParse(t, letter), Recipient{"k", key.PublicKey()})
	sec := sealed.Get("sec")
	block := sec.Get("enc")
	for name, changed := range map[string]canonical.Value{
		"no block":                 {},
		"no algorithm":             block.Without("alg"),
		"another algorithm":        block.With("alg", canonical.String("x25519-aes256gcm")),
		"no ciphertext":            block.Without("ciphertext"),
		"no nonce":                 block.Without("nonce"),
		"no recipients":            block.Without("recipients"),
		"recipients are no array":  block.With("recipients", block.Get("recipients").At(0)),
		"ciphertext without a tag": block.With("ciphertext", canonical.String("AAAA")),
	} {
		if _, err := Decrypt(sealed.With("sec", sec.With("enc", changed)), holding("k", key)); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
	if _, err := Decrypt(mustParse(t, letter), holding("k", key)); err == nil {
		t.Error("what is not encrypted was opened")
	}
}

func TestDecryptTellsAPlaintextThatBreaksTheDataModel(t *testing.T) {
	key := decryptKey(t, 10)
	sealed := encrypt(t, mustParse(t, letter), Recipient{"k", key.PublicKey()})
	entry := sealed.Get("sec").Get("enc").Get("recipients").At(0)
	eph, err := ecdh.X25519().NewPublicKey(mustDecode(t, entry.Get("eph")))
	if err != nil {
		t.Fatal(err)
	}
	unwrapper, err := wrapCipher(key, eph)
	if err != nil {
		t.Fatal(err)
	}
	contentKey, err := unwrapper.Open(nil, mustDecode(t, entry.Get("wn")), mustDecode(t, entry.Get("ek")), nil)
	if err != nil {
		t.Fatal(err)
	}
	sec := sealed.Get("sec")
	with := func(plaintext string) canonical.Value {
		ciphertext, err := forge(contentKey, []byte(plaintext), mustDecode(t, sec.Get("enc").Get("nonce")))
		if err != nil {
			t.Fatal(err)
		}
		return sealed.With("sec", sec.With("enc", sec.Get("enc").With("ciphertext", b64Value(ciphertext))))
	}
	if payload, err := Decrypt(with(` {"a": 1.0}`), holding("k", key)); err != nil || !payload.Equal(mustParse(t, `{"a":1.0}`)) {
		t.Errorf("plaintext that is not canonical: %v", err)
	}
	_, err = Decrypt(with(`{"a":1,"a":2}`), holding("k", key))
	if _, ok := errors.AsType[*canonical.ValueError](err); !ok {
		t.Errorf("a name twice: %v", err)
	}
	_, err = Decrypt(with(``), holding("k", key))
	if _, ok := errors.AsType[*canonical.SyntaxError](err); !ok {
		t.Errorf("no plaintext: %v", err)
	}
}

func mustDecode(t *testing.T, v canonical.Value) []byte {
	t.Helper()
	text, _ := v.Text()
	octets, err := DecodeB64(text)
	if err != nil {
		t.Fatal(err)
	}
	return octets
}

func BenchmarkDecrypt(b *testing.B) {
	key := decryptKey(b, 10)
	sealed := encrypt(b, mustParse(b, letter), Recipient{"k", key.PublicKey()})
	b.ReportAllocs()
	b.SetBytes(int64(sealed.JSONSize()))
	for b.Loop() {
		if _, err := Decrypt(sealed, holding("k", key)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyAndDecrypt(b *testing.B) {
	key, s := decryptKey(b, 10), signer(b, 1, CBOR)
	sealed := sign(b, s, encrypt(b, mustParse(b, letter), Recipient{"k", key.PublicKey()}))
	b.ReportAllocs()
	b.SetBytes(int64(sealed.JSONSize()))
	for b.Loop() {
		if _, err := Verify(sealed, public(s.Key)); err != nil {
			b.Fatal(err)
		}
		if _, err := Decrypt(sealed, holding("k", key)); err != nil {
			b.Fatal(err)
		}
	}
}
