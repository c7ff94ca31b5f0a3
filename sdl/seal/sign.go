package seal

import (
	"crypto/ed25519"
	"errors"
	"fmt"

	"github.com/slimwire/swp/sdl/canonical"
)

// Form is the encoding of an envelope that a signature covers. It is independent of the
// encoding on the wire.
type Form uint8

// The two forms. Signers that can write CBOR use it, the zero value.
const (
	CBOR Form = iota
	JSON
)

func (f Form) String() string {
	if f == JSON {
		return "json"
	}
	return "cbor"
}

// Signer signs envelopes.
type Signer struct {
	Kid  string // goes into sec.kid, not empty
	Key  ed25519.PrivateKey
	Form Form
}

// Sign returns the envelope with its signature. Mode sig or none becomes sig, enc becomes
// enc+sig; sec.replay and sec.session are kept and covered. An existing signature is
// replaced.
func (s Signer) Sign(envelope canonical.Value) (canonical.Value, error) {
	if s.Kid == "" {
		return canonical.Value{}, errors.New("seal: signer without a kid")
	}
	if len(s.Key) != ed25519.PrivateKeySize {
		return canonical.Value{}, fmt.Errorf("seal: signing key: %d octets, want %d", len(s.Key), ed25519.PrivateKeySize)
	}
	sec, err := secOf(envelope)
	if err != nil {
		return canonical.Value{}, err
	}
	mode := Sig
	switch was := Mode(envelope); was {
	case None, Sig:
	case Enc, EncSig:
		mode = EncSig
	default:
		return canonical.Value{}, fmt.Errorf("seal: mode %q", was)
	}
	sec = sec.With("mode", canonical.String(mode)).With("kid", canonical.String(s.Kid))
	sec = sec.With("sig", canonical.Object(
		canonical.Member{Name: "alg", Value: canonical.String(Ed25519)},
		canonical.Member{Name: "value", Value: canonical.String("")},
	))
	unsigned := envelope.With("sec", sec)
	return withSignature(unsigned, EncodeB64(ed25519.Sign(s.Key, encode(unsigned, s.Form)))), nil
}

// SigningInput returns the octets that the signature of an envelope covers: all of
// the envelope, with sec.sig.value empty. It is what Sign signs once mode, kid and
// alg are set.
func SigningInput(envelope canonical.Value, form Form) []byte {
	return encode(withSignature(envelope, ""), form)
}

// Verify checks the signature of an envelope and returns the form that it covers. It tries
// CBOR first, then JSON. It ignores sec.kid, because the caller has chosen the key.
func Verify(envelope canonical.Value, key ed25519.PublicKey) (Form, error) {
	sig := envelope.Get("sec").Get("sig")
	if alg, _ := sig.Get("alg").Text(); alg != Ed25519 {
		return 0, fmt.Errorf("seal: signature algorithm %q, want %q", alg, Ed25519)
	}
	text, ok := sig.Get("value").Text()
	if !ok {
		return 0, errors.New("seal: no signature")
	}
	signature, err := decodeSignature(key, text)
	if err != nil {
		return 0, err
	}
	unsigned := withSignature(envelope, "")
	for _, form := range []Form{CBOR, JSON} {
		if ed25519.Verify(key, encode(unsigned, form), signature) {
			return form, nil
		}
	}
	return 0, errors.New("seal: signature does not fit the envelope in either form")
}

// SignDetached returns the signature over the canonical JSON of a document.
func SignDetached(document canonical.Value, key ed25519.PrivateKey) string {
	return EncodeB64(ed25519.Sign(key, document.AppendJSON(nil)))
}

// VerifyDetached checks a signature over the canonical JSON of a document.
func VerifyDetached(document canonical.Value, signature string, key ed25519.PublicKey) error {
	octets, err := decodeSignature(key, signature)
	if err != nil {
		return err
	}
	if !ed25519.Verify(key, document.AppendJSON(nil), octets) {
		return errors.New("seal: signature does not fit the document")
	}
	return nil
}

func decodeSignature(key ed25519.PublicKey, text string) ([]byte, error) {
	if len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("seal: verify key: %d octets, want %d", len(key), ed25519.PublicKeySize)
	}
	if lowOrder(key) {
		return nil, errors.New("seal: verify key: a point of low order")
	}
	return decodeB64("signature", text, ed25519.SignatureSize)
}

// secOf returns sec of an envelope, an empty object if there is none.
func secOf(envelope canonical.Value) (canonical.Value, error) {
	sec := envelope.Get("sec")
	switch {
	case envelope.Kind() != canonical.KindObject:
		return sec, errors.New("seal: the envelope is no object")
	case sec.IsNull():
		return canonical.Object(), nil
	case sec.Kind() != canonical.KindObject:
		return sec, errors.New("seal: sec is no object")
	}
	return sec, nil
}

// withSignature returns the envelope with sec.sig.value replaced.
func withSignature(envelope canonical.Value, value string) canonical.Value {
	sec := envelope.Get("sec")
	sig := sec.Get("sig").With("value", canonical.String(value))
	return envelope.With("sec", sec.With("sig", sig))
}

func encode(v canonical.Value, form Form) []byte {
	if form == JSON {
		return v.AppendJSON(make([]byte, 0, v.JSONSize()))
	}
	return v.AppendCBOR(nil)
}
