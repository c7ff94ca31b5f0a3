package check

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
)

// loadKeywrap reads a row with an encrypted payload and every intermediate value.
func loadKeywrap(row canonical.Value, _ string, keys *Keys) (Case, error) {
	s := newShape(row)
	w := keywrap{
		plaintext: s.text("plaintext_json"),
		enc:       recipients(s.object("sec_enc")),
		kid:       s.text("recipient_kid"),
		private:   s.text("recipient_private_b64"),
		keys:      keys,

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

// recipients reads the entries of sec.enc, which is returned unchanged.
func recipients(s *shape) canonical.Value {
	for _, entry := range s.elements("recipients") {
		entry.text("kid")
		for _, m := range []struct {
			name string
			size int
		}{{"eph", 32}, {"wn", 12}, {"ek", 48}} {
			if octets, err := seal.DecodeB64(entry.text(m.name)); err != nil || len(octets) != m.size {
				entry.fault(m.name, "want %d octets in base64url", m.size)
			}
		}
		entry.done()
	}
	return s.value
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
	keys                                                                    *Keys
	contentKey, contentNonce, ephemeral, public, shared, wrapKey, wrapNonce []byte
}

// wrapInfo is what HKDF is told (A2A-SDL §6.5).
const wrapInfo = "a2a-sdl-key-wrap-v1"

// play encrypts the payload again with the same secrets, and decrypts the payload of the
// row. The intermediate values are computed with the standard library. The entries of other
// recipients are also opened, if the key file has their keys.
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
	diff = append(diff, same("sec_enc", sealed.Get("sec").Get("enc"), w.to(w.kid))...)

	opener := map[string]*ecdh.PrivateKey{w.kid: key}
	for entry := range w.enc.Get("recipients").All() {
		kid, _ := entry.Get("kid").Text()
		if _, ok := opener[kid]; !ok {
			opener[kid] = w.keys.decryptKey(kid)
		}
	}
	for _, kid := range slices.Sorted(maps.Keys(opener)) {
		if opener[kid] == nil {
			continue
		}
		one := sealed.With("sec", sealed.Get("sec").With("enc", w.to(kid)))
		opened, err := seal.Decrypt(one, func(kid string) *ecdh.PrivateKey { return opener[kid] })
		if err != nil {
			return nil, append(diff, fmt.Sprintf("sec_enc to %q: %v", kid, err))
		}
		diff = append(diff, same(fmt.Sprintf("payload decrypted by %q", kid), opened, payload)...)
	}
	return []Result{{Outcome: accepted}}, diff
}

// to returns sec_enc with the entries of one recipient only.
func (w *keywrap) to(kid string) canonical.Value {
	var own []canonical.Value
	for entry := range w.enc.Get("recipients").All() {
		if name, _ := entry.Get("kid").Text(); name == kid {
			own = append(own, entry)
		}
	}
	return w.enc.With("recipients", canonical.Array(own...))
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
