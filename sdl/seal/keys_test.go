package seal

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"strings"
	"testing"
)

func TestDecodeB64TakesOneTextForEachOctets(t *testing.T) {
	octets := []byte{0xfb, 0xff, 0x00, 0x10}
	if got := EncodeB64(octets); got != "-_8AEA" {
		t.Errorf("got %q, want %q", got, "-_8AEA")
	}
	for _, test := range []struct{ what, text string }{
		{"padded", "-_8AEA=="},
		{"standard alphabet", "+/8AEA"},
		{"stray bits", "-_8AEB"},
		{"line break", "-_8A\nEA"},
		{"carriage return at the end", "-_8AEA\r"},
		{"blank", "-_8A EA"},
		{"foreign character", "-_8A.EA"},
		{"impossible length", "-_8AE"},
	} {
		if got, err := DecodeB64(test.text); err == nil {
			t.Errorf("%s: %q was read as %x", test.what, test.text, got)
		}
	}
	if got, err := DecodeB64("-_8AEA"); err != nil || !bytes.Equal(got, octets) {
		t.Errorf("got %x, %v", got, err)
	}
	if got, err := DecodeB64(""); err != nil || len(got) != 0 {
		t.Errorf("nothing: got %x, %v", got, err)
	}
}

// seeded is a source of randomness that repeats.
func seeded(first byte) *bytes.Reader {
	octets := make([]byte, 1<<12)
	for i := range octets {
		octets[i] = first + byte(i)
	}
	return bytes.NewReader(octets)
}

func TestKeysAreReadInTheFormsInWhichTheyAreWritten(t *testing.T) {
	signing, err := GenerateSigning(seeded(1))
	if err != nil {
		t.Fatal(err)
	}
	decrypt, err := GenerateDecrypt(seeded(2))
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, signing, ParseSigningKey)
	roundTrip(t, ed25519.PublicKey(signing[32:]), ParseVerifyKey)
	roundTrip(t, decrypt, ParseDecryptKey)
	roundTrip(t, decrypt.PublicKey(), ParseEncryptKey)
}

func roundTrip[K Key](t *testing.T, key K, parse func(string) (K, error)) {
	t.Helper()
	pem, err := FormatPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{pem, FormatB64(key)} {
		got, err := parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if FormatB64(got) != FormatB64(key) {
			t.Errorf("%q: was read as another key", text)
		}
	}
	// No prefix of either is a key.
	for _, text := range []string{strings.TrimSpace(pem), FormatB64(key)} {
		for n := range len(text) {
			if _, err := parse(text[:n]); err == nil {
				t.Errorf("the first %d of %d characters of %q are a key", n, len(text), text)
			}
		}
	}
	if _, err := parse(pem + "x"); err == nil {
		t.Error("a character after the PEM block was not seen")
	}
	if _, err := parse(FormatB64(key) + "A"); err == nil {
		t.Error("33 octets were read as a key")
	}
}

func TestGeneratedKeysDifferAndComeFromTheGivenRandomness(t *testing.T) {
	a, err1 := GenerateSigning(nil)
	b, err2 := GenerateSigning(nil)
	if err1 != nil || err2 != nil || a.Equal(b) {
		t.Errorf("two keys of crypto/rand are the same (%v, %v)", err1, err2)
	}
	a, err1 = GenerateSigning(seeded(7))
	b, err2 = GenerateSigning(seeded(7))
	if err1 != nil || err2 != nil || !a.Equal(b) {
		t.Errorf("two keys of one randomness differ (%v, %v)", err1, err2)
	}
	if _, err := GenerateSigning(strings.NewReader("short")); err == nil {
		t.Error("a key was made of too little randomness")
	}
	if _, err := GenerateDecrypt(strings.NewReader("short")); err == nil {
		t.Error("a key was made of too little randomness")
	}
}

func TestParseKeysRefusesKeysOfAnotherKind(t *testing.T) {
	p256, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	dsa, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signing, _ := GenerateSigning(nil)
	decrypt, _ := GenerateDecrypt(nil)
	private := func(key any) string {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	public := func(key any) string {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	}
	for name, text := range map[string]string{
		"P-256":            private(p256),
		"ECDSA":            private(dsa),
		"the other use":    private(decrypt),
		"public":           public(signing.Public()),
		"encrypted":        strings.ReplaceAll(private(signing), "PRIVATE", "ENCRYPTED PRIVATE"),
		"nothing":          "",
		"PEM without text": "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n",
		"half a PEM":       "-----BEGIN",
	} {
		if _, err := ParseSigningKey(text); err == nil {
			t.Errorf("signing key: %s was taken", name)
		}
	}
	for name, text := range map[string]string{"P-256": private(p256), "the other use": private(signing), "public": public(decrypt.PublicKey())} {
		if _, err := ParseDecryptKey(text); err == nil {
			t.Errorf("decrypt key: %s was taken", name)
		}
	}
	for name, text := range map[string]string{"P-256": public(p256.PublicKey()), "the other use": public(decrypt.PublicKey()), "private": private(signing)} {
		if _, err := ParseVerifyKey(text); err == nil {
			t.Errorf("verify key: %s was taken", name)
		}
	}
	for name, text := range map[string]string{"P-256": public(p256.PublicKey()), "the other use": public(signing.Public()), "private": private(decrypt)} {
		if _, err := ParseEncryptKey(text); err == nil {
			t.Errorf("encrypt key: %s was taken", name)
		}
	}
}

// lowOrderU are the points of X25519 whose order divides eight, on the curve and on
// its twist, and the texts of them that are not reduced. The top bit is not looked at.
var lowOrderU = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
	"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"0000000000000000000000000000000000000000000000000000000000000080",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
}

func TestParseEncryptKeyRefusesPointsOfLowOrder(t *testing.T) {
	for _, u := range lowOrderU {
		octets, err := hex.DecodeString(u)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseEncryptKey(EncodeB64(octets)); err == nil {
			t.Errorf("%s was taken", u)
		}
	}
}

func TestParseVerifyKeyRefusesPointsOfLowOrder(t *testing.T) {
	for y := range lowOrderY {
		octets, err := hex.DecodeString(y)
		if err != nil {
			t.Fatal(err)
		}
		for _, sign := range []byte{0, 0x80} {
			octets[31] = octets[31]&0x7f | sign
			if _, err := ParseVerifyKey(EncodeB64(octets)); err == nil {
				t.Errorf("%x was taken", octets)
			}
		}
	}
	// The table says what it should: with the neutral element for a key, R = S·B is a
	// signature of every message. Here S and R are zero and neutral.
	neutral := append([]byte{1}, make([]byte, 31)...)
	signature := append(bytes.Clone(neutral), make([]byte, 32)...)
	if !ed25519.Verify(neutral, []byte("anything"), signature) {
		t.Error("a key of low order does not verify everything: the table is not needed")
	}
	document := mustParse(t, `{}`)
	if err := VerifyDetached(document, base64.RawURLEncoding.EncodeToString(signature), neutral); err == nil {
		t.Error("a signature under a key of low order was taken")
	}
}
