package check

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"

	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
)

// loadKeywrap reads a row with an encrypted payload and every value on the way.
func loadKeywrap(row canonical.Value, _ string, _ *Keys) (Case, error) {
	s := newShape(row)
	w := keywrap{
		plaintext: s.text("plaintext_json"),
		enc:       s.of("sec_enc", canonical.KindObject),
		kid:       s.text("recipient_kid"),
		private:   s.text("recipient_private_b64"),

		contentKey: s.octets("content_key_hex"), contentNonce: s.octets("content_nonce_hex"),
		ephemeral: s.octets("ephemeral_private_hex"), public: s.octets("ephemeral_public_hex"),
		shared: s.octets("shared_secret_hex"), wrapKey: s.octets("wrap_key_hex"), wrapNonce: s.octets("wrap_nonce_hex"),
	}
	name := s.text("id")
	s.done()
	return Case{name, func(context.Context) ([]Result, []string) {
		if len(*s.diff) > 0 {
			return nil, *s.diff
		}
		return w.play()
	}}, nil
}

// octets reads a member in hexadecimal.
func (s *shape) octets(name string) []byte {
	octets, err := hex.DecodeString(s.text(name))
	if err != nil || len(octets) == 0 {
		s.fault(name, "want octets in hexadecimal")
	}
	return octets
}

type keywrap struct {
	plaintext, kid, private                                                 string
	enc                                                                     canonical.Value
	contentKey, contentNonce, ephemeral, public, shared, wrapKey, wrapNonce []byte
}

// wrapInfo is what HKDF is told (A2A-SDL §6.5).
const wrapInfo = "a2a-sdl-key-wrap-v1"

// play encrypts the payload again with the same secrets, and decrypts what the row
// has. The values between are those of the standard library.
func (w *keywrap) play() ([]Result, []string) {
	payload, err := canonical.ParseJSON([]byte(w.plaintext))
	if err != nil {
		return nil, []string{"plaintext_json: " + err.Error()}
	}
	key, err := seal.ParseDecryptKey(w.private)
	if err != nil {
		return nil, []string{"recipient_private_b64: " + err.Error()}
	}
	diff := same("plaintext_json", canonical.String(w.plaintext), canonical.String(string(payload.AppendJSON(nil))))
	diff = append(diff, w.between(key)...)

	secrets := bytes.Join([][]byte{w.contentKey, w.contentNonce, w.ephemeral, w.wrapNonce}, nil)
	envelope := canonical.Object(canonical.Member{Name: "payload", Value: payload})
	sealed, err := seal.Encrypt(envelope, bytes.NewReader(secrets), seal.Recipient{Kid: w.kid, Key: key.PublicKey()})
	if err != nil {
		return nil, append(diff, "sec_enc: "+err.Error())
	}
	diff = append(diff, same("sec_enc", sealed.Get("sec").Get("enc"), w.enc)...)

	sealed = sealed.With("sec", sealed.Get("sec").With("enc", w.enc))
	opened, err := seal.Decrypt(sealed, func(kid string) *ecdh.PrivateKey {
		if kid == w.kid {
			return key
		}
		return nil
	})
	if err != nil {
		return nil, append(diff, "sec_enc: "+err.Error())
	}
	return []Result{{Outcome: accepted}}, append(diff, same("payload decrypted", opened, payload)...)
}

func (w *keywrap) between(recipient *ecdh.PrivateKey) (diff []string) {
	ephemeral, err := ecdh.X25519().NewPrivateKey(w.ephemeral)
	if err != nil {
		return []string{"ephemeral_private_hex: " + err.Error()}
	}
	shared, err := ephemeral.ECDH(recipient.PublicKey())
	if err != nil {
		return []string{"shared_secret_hex: " + err.Error()}
	}
	wrap, err := hkdf.Key(sha256.New, shared, nil, wrapInfo, len(w.wrapKey))
	if err != nil {
		return []string{"wrap_key_hex: " + err.Error()}
	}
	for _, v := range []struct {
		name      string
		got, want []byte
	}{
		{"ephemeral_public_hex", ephemeral.PublicKey().Bytes(), w.public},
		{"shared_secret_hex", shared, w.shared},
		{"wrap_key_hex", wrap, w.wrapKey},
	} {
		diff = append(diff, same(v.name, canonical.String(hex.EncodeToString(v.got)), canonical.String(hex.EncodeToString(v.want)))...)
	}
	return diff
}
