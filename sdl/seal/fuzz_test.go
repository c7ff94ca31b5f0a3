package seal

import "testing"

// FuzzDecodeB64 reads what it is given: what is read has no other text.
func FuzzDecodeB64(f *testing.F) {
	for _, seed := range []string{"", "AA", "-_8AEA", "-_8AEB", "AA==", "A", "+/8AEA", "AA\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		octets, err := DecodeB64(text)
		if err == nil && EncodeB64(octets) != text {
			t.Errorf("%q was read, and is written %q", text, EncodeB64(octets))
		}
	})
}

// FuzzKeys reads whatever it is given as each kind of key: what is read is read
// again from what is written.
func FuzzKeys(f *testing.F) {
	key, err := GenerateSigning(seeded(1))
	if err != nil {
		f.Fatal(err)
	}
	private, err := FormatPEM(key)
	if err != nil {
		f.Fatal(err)
	}
	public, err := FormatPEM(public(key))
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{private, public, FormatB64(key), "", "-----BEGIN", "-----BEGIN PUBLIC KEY-----\n\n-----END PUBLIC KEY-----"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		again(t, text, ParseSigningKey)
		again(t, text, ParseVerifyKey)
		again(t, text, ParseDecryptKey)
		again(t, text, ParseEncryptKey)
	})
}

func again[K Key](t *testing.T, text string, parse func(string) (K, error)) {
	t.Helper()
	key, err := parse(text)
	if err != nil {
		return
	}
	if other, err := parse(FormatB64(key)); err != nil || FormatB64(other) != FormatB64(key) {
		t.Errorf("%q was read, and not again: %v", text, err)
	}
}
