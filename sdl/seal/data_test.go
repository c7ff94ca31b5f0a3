package seal

import (
	"bytes"
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/vectors/datatest"
)

func forge(key, plaintext, nonce []byte) ([]byte, error) {
	sealer, err := chacha20poly1305.New(key)
	if err != nil {
		return nil, err
	}
	return sealer.Seal(nil, nonce, plaintext, nil), nil
}

func textOf(t *testing.T, v canonical.Value, name string) string {
	t.Helper()
	text, ok := v.Get(name).Text()
	if !ok {
		t.Fatalf("no %s", name)
	}
	return text
}

func hexOf(t *testing.T, v canonical.Value, name string) []byte {
	t.Helper()
	octets, err := hex.DecodeString(textOf(t, v, name))
	if err != nil {
		t.Fatal(err)
	}
	return octets
}

func TestDataKeyWrapReproducesOctetForOctet(t *testing.T) {
	played := 0
	for line := range bytes.Lines(datatest.Read(t, "sdl/keywrap-vectors.jsonl")) {
		row := mustParse(t, string(line))
		name := textOf(t, row, "id")
		played++
		private, err := ParseDecryptKey(textOf(t, row, "recipient_private_b64"))
		if err != nil {
			t.Fatal(err)
		}
		kid := textOf(t, row, "recipient_kid")
		payload := mustParse(t, textOf(t, row, "plaintext_json"))

		// The values on the way.
		ephemeral, err := ecdh.X25519().NewPrivateKey(hexOf(t, row, "ephemeral_private_hex"))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := ephemeral.PublicKey().Bytes(), hexOf(t, row, "ephemeral_public_hex"); !bytes.Equal(got, want) {
			t.Errorf("%s: ephemeral public key %x, want %x", name, got, want)
		}
		sharedSecret, err := ephemeral.ECDH(private.PublicKey())
		if err != nil {
			t.Fatal(err)
		}
		if want := hexOf(t, row, "shared_secret_hex"); !bytes.Equal(sharedSecret, want) {
			t.Errorf("%s: shared secret %x, want %x", name, sharedSecret, want)
		}
		key, err := wrapKey(sharedSecret)
		if err != nil {
			t.Fatal(err)
		}
		if want := hexOf(t, row, "wrap_key_hex"); !bytes.Equal(key, want) {
			t.Errorf("%s: wrap key %x, want %x", name, key, want)
		}

		// All of it, from the same secrets.
		secrets := bytes.Join([][]byte{
			hexOf(t, row, "content_key_hex"), hexOf(t, row, "content_nonce_hex"),
			hexOf(t, row, "ephemeral_private_hex"), hexOf(t, row, "wrap_nonce_hex"),
		}, nil)
		envelope := canonical.Object().With("payload", payload)
		sealed, err := Encrypt(envelope, bytes.NewReader(secrets), Recipient{kid, private.PublicKey()})
		if err != nil {
			t.Fatal(err)
		}
		got, want := sealed.Get("sec").Get("enc").AppendJSON(nil), row.Get("sec_enc").AppendJSON(nil)
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: sec.enc (-want +got):\n%s", name, diff)
		}
		opened, err := Decrypt(sealed.With("sec", sealed.Get("sec").With("enc", row.Get("sec_enc"))), holding(kid, private))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !opened.Equal(payload) {
			t.Errorf("%s: payload %s", name, opened.AppendJSON(nil))
		}
	}
	if played == 0 {
		t.Error("no row was played")
	}
	t.Logf("%d rows", played)
}

func TestDataKeysAreTheSameInEachForm(t *testing.T) {
	for kid, key := range mustParse(t, string(datatest.Read(t, "sdl/keys.json"))).Get("keys").Members() {
		same := func(form string, err error) {
			if err != nil {
				t.Errorf("%s: %s: %v", kid, form, err)
			}
		}
		private, public := textOf(t, key, "private_key_b64"), textOf(t, key, "public_key_b64")
		for _, form := range []string{"b64", "pem"} {
			switch use := textOf(t, key, "use"); use {
			case "ed25519":
				signing, err := ParseSigningKey(textOf(t, key, "private_key_"+form))
				same(form, err)
				verify, err := ParseVerifyKey(textOf(t, key, "public_key_"+form))
				same(form, err)
				if !verify.Equal(signing.Public()) || FormatB64(signing) != private || FormatB64(verify) != public {
					t.Errorf("%s: %s: the two halves do not fit", kid, form)
				}
			case "x25519":
				decrypt, err := ParseDecryptKey(textOf(t, key, "private_key_"+form))
				same(form, err)
				encrypt, err := ParseEncryptKey(textOf(t, key, "public_key_"+form))
				same(form, err)
				if !decrypt.PublicKey().Equal(encrypt) || FormatB64(decrypt) != private || FormatB64(encrypt) != public {
					t.Errorf("%s: %s: the two halves do not fit", kid, form)
				}
				pem, err := FormatPEM(decrypt)
				same(form, err)
				if diff := cmp.Diff(textOf(t, key, "private_key_pem"), pem); diff != "" {
					t.Errorf("%s: (-want +got):\n%s", kid, diff)
				}
			default:
				t.Errorf("%s: use %q", kid, use)
			}
		}
	}
}

// body returns the request of a case.
func body(t *testing.T, expect canonical.Value) canonical.Value {
	t.Helper()
	name := textOf(t, expect, "body_file")
	octets := datatest.Read(t, "sdl/"+name)
	if !strings.HasSuffix(name, ".cbor.json") {
		return mustParse(t, string(octets))
	}
	octets, err := DecodeB64(textOf(t, mustParse(t, string(octets)), "body_base64url"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := canonical.ParseCBOR(octets)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDataSignaturesAndPayloads(t *testing.T) {
	files := datatest.Glob(t, "sdl", "*.expect.json")
	keys := mustParse(t, string(datatest.Read(t, "sdl/keys.json"))).Get("keys")
	inputs, verified, decrypted := 0, 0, 0
	for _, file := range files {
		expect := mustParse(t, string(datatest.Read(t, "sdl/"+filepath.Base(file))))
		name := textOf(t, expect, "case")
		if want := expect.Get("signature"); !want.IsNull() {
			envelope := body(t, expect)
			form, other := CBOR, JSON
			if textOf(t, want, "form") == "json" {
				form, other = JSON, CBOR
			}
			inputs++
			digest := func(form Form, size, sum canonical.Value) {
				input := SigningInput(envelope, form)
				hash := sha256.Sum256(input)
				if n, _ := size.Int64(); n != int64(len(input)) {
					t.Errorf("%s: %v input has %d octets, want %d", name, form, len(input), n)
				}
				if got, _ := sum.Text(); got != "sha256:"+hex.EncodeToString(hash[:]) {
					t.Errorf("%s: %v input has hash %x, want %s", name, form, hash, got)
				}
			}
			digest(form, want.Get("signing_input_bytes"), want.Get("signing_input_sha256"))
			if o := want.Get("other_form"); !o.IsNull() {
				digest(other, o.Get("bytes"), o.Get("sha256"))
			}
			verify, err := ParseVerifyKey(textOf(t, keys.Get(textOf(t, want, "kid")), "public_key_b64"))
			if err != nil {
				t.Fatal(err)
			}
			// Cases whose signature must not fit say so in their name.
			fits := !strings.HasPrefix(name, "50-") && !strings.HasPrefix(name, "51-") && !strings.HasPrefix(name, "52-")
			got, err := Verify(envelope, verify)
			if (err == nil) != fits {
				t.Errorf("%s: verified: %v, want %v (%v)", name, err == nil, fits, err)
			}
			if fits {
				verified++
				if got != form {
					t.Errorf("%s: verified in form %v, want %v", name, got, form)
				}
			}
		}
		if want, ok := expect.Get("decrypted_payload"), expect.Has("decrypted_payload"); ok {
			kids := map[string]*ecdh.PrivateKey{}
			add := func(kid, text string) {
				key, err := ParseDecryptKey(text)
				if err != nil {
					t.Fatal(err)
				}
				kids[kid] = key
			}
			for kid, text := range expect.Get("server").Get("policy").Get("decrypt_private_keys").Members() {
				private, _ := text.Text()
				add(kid, private)
			}
			if with := expect.Get("decrypt_with"); !with.IsNull() {
				add(textOf(t, with, "kid"), textOf(t, with, "private_key_b64"))
			}
			got, err := Decrypt(body(t, expect), func(kid string) *ecdh.PrivateKey { return kids[kid] })
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			decrypted++
			if !got.Equal(want) {
				t.Errorf("%s: payload %s", name, got.AppendJSON(nil))
			}
		}
	}
	if verified == 0 || decrypted == 0 {
		t.Error("nothing was played")
	}
	t.Logf("%d signing inputs, %d verified, %d payloads decrypted", inputs, verified, decrypted)
}
