package seal

import (
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/slimwire/swp/sdl/canonical"
)

// wrapInfo is the info of HKDF for a wrap key.
const wrapInfo = "a2a-sdl-key-wrap-v1"

// Lengths, in octets, of the random values and outputs of Encrypt.
const (
	keySize     = chacha20poly1305.KeySize
	nonceSize   = chacha20poly1305.NonceSize
	wrappedSize = keySize + chacha20poly1305.Overhead
)

// maxEntries is how many entries of one kid Decrypt tries. Each costs a multiplication on
// the curve, and the sender chooses their number.
const maxEntries = 16

// Recipient is an agent that can decrypt.
type Recipient struct {
	Kid string // not empty; two recipients may have the same
	Key *ecdh.PublicKey
}

// Encrypt returns the envelope with its payload encrypted to at least one recipient:
// payload is null and mode is enc, or enc+sig if it was sig or enc+sig. Sign the result
// afterwards.
//
// random is the source of secrets; nil means crypto/rand. It is read in this order: the
// content key (32 octets) and content nonce (12), then for each recipient the ephemeral
// private key (32) and the wrap nonce (12).
func Encrypt(envelope canonical.Value, random io.Reader, to ...Recipient) (canonical.Value, error) {
	sec, err := secOf(envelope)
	if err != nil {
		return canonical.Value{}, err
	}
	mode := Enc
	switch was := Mode(envelope); was {
	case None, Enc:
	case Sig, EncSig:
		mode = EncSig
	default:
		return canonical.Value{}, fmt.Errorf("seal: mode %q", was)
	}
	block, err := encryptPayload(envelope.Get("payload"), random, to)
	if err != nil {
		return canonical.Value{}, err
	}
	sec = sec.With("mode", canonical.String(mode)).With("enc", block)
	return envelope.With("sec", sec).With("payload", canonical.Value{}), nil
}

// encryptPayload returns sec.enc.
func encryptPayload(payload canonical.Value, random io.Reader, to []Recipient) (canonical.Value, error) {
	if len(to) == 0 {
		return canonical.Value{}, errors.New("seal: nobody to encrypt to")
	}
	content, err := draw(random, keySize+nonceSize)
	if err != nil {
		return canonical.Value{}, err
	}
	key, nonce := content[:keySize], content[keySize:]
	sealer, err := chacha20poly1305.New(key)
	if err != nil {
		return canonical.Value{}, fmt.Errorf("seal: %w", err)
	}
	recipients := make([]canonical.Value, len(to))
	for i, r := range to {
		if recipients[i], err = wrap(key, random, r); err != nil {
			return canonical.Value{}, err
		}
	}
	plaintext := payload.AppendJSON(make([]byte, 0, payload.JSONSize()+sealer.Overhead()))
	return canonical.Object(
		canonical.Member{Name: "alg", Value: canonical.String(X25519)},
		canonical.Member{Name: "ciphertext", Value: b64Value(sealer.Seal(plaintext[:0], nonce, plaintext, nil))},
		canonical.Member{Name: "nonce", Value: b64Value(nonce)},
		canonical.Member{Name: "recipients", Value: canonical.Array(recipients...)},
	), nil
}

// wrap returns an entry of sec.enc.recipients.
func wrap(contentKey []byte, random io.Reader, to Recipient) (canonical.Value, error) {
	if to.Kid == "" || to.Key == nil {
		return canonical.Value{}, errors.New("seal: recipient without a kid or a key")
	}
	ephemeral, err := GenerateDecrypt(random)
	if err != nil {
		return canonical.Value{}, err
	}
	nonce, err := draw(random, nonceSize)
	if err != nil {
		return canonical.Value{}, err
	}
	sealer, err := wrapCipher(ephemeral, to.Key)
	if err != nil {
		return canonical.Value{}, fmt.Errorf("%w (recipient %q)", err, to.Kid)
	}
	return canonical.Object(
		canonical.Member{Name: "ek", Value: b64Value(sealer.Seal(nil, nonce, contentKey, nil))},
		canonical.Member{Name: "eph", Value: b64Value(ephemeral.PublicKey().Bytes())},
		canonical.Member{Name: "kid", Value: canonical.String(to.Kid)},
		canonical.Member{Name: "wn", Value: b64Value(nonce)},
	), nil
}

// wrapCipher returns the cipher that wraps the content key between the holders of two keys.
// It refuses a shared secret of zeros, the result of a point of low order.
func wrapCipher(private *ecdh.PrivateKey, public *ecdh.PublicKey) (cipher.AEAD, error) {
	shared, err := private.ECDH(public) // refuses the secret of zeros
	if err != nil {
		return nil, fmt.Errorf("seal: X25519: %w", err)
	}
	key, err := wrapKey(shared)
	if err != nil {
		return nil, err
	}
	return chacha20poly1305.New(key)
}

// wrapKey derives the wrap key from a shared secret.
func wrapKey(shared []byte) ([]byte, error) {
	key, err := hkdf.Key(sha256.New, shared, nil, wrapInfo, keySize)
	if err != nil {
		return nil, fmt.Errorf("seal: HKDF: %w", err)
	}
	return key, nil
}

// Decrypt returns the payload of an encrypted envelope. It does not verify the signature.
//
// key returns the private key of a kid, or nil. The first recipient with a key determines
// the kid; each of the first 16 entries with that kid is tried until one succeeds. If the
// plaintext is not JSON or breaks the rules of the data model, the error wraps that of
// package canonical.
func Decrypt(envelope canonical.Value, key func(kid string) *ecdh.PrivateKey) (canonical.Value, error) {
	block := envelope.Get("sec").Get("enc")
	if alg, _ := block.Get("alg").Text(); alg != X25519 {
		return canonical.Value{}, fmt.Errorf("seal: encryption algorithm %q, want %q", alg, X25519)
	}
	nonce, err := decodeMember(block, "nonce", nonceSize)
	if err != nil {
		return canonical.Value{}, err
	}
	text, ok := block.Get("ciphertext").Text()
	if !ok {
		return canonical.Value{}, errors.New("seal: no ciphertext")
	}
	ciphertext, err := DecodeB64(text)
	if err != nil {
		return canonical.Value{}, fmt.Errorf("%w (ciphertext)", err)
	}

	var kid string
	var private *ecdh.PrivateKey
	failed := errors.New("seal: encrypted for others")
	tried := 0
	for entry := range block.Get("recipients").All() {
		name, ok := entry.Get("kid").Text()
		switch {
		case !ok:
			continue
		case private != nil && name != kid:
			continue
		case private == nil:
			if private = key(name); private == nil {
				continue
			}
			kid = name
		}
		if tried++; tried > maxEntries {
			break
		}
		plaintext, err := open(entry, private, nonce, ciphertext)
		if err != nil {
			failed = err
			continue
		}
		payload, err := canonical.ParseJSON(plaintext)
		if err != nil {
			return canonical.Value{}, fmt.Errorf("seal: plaintext: %w", err)
		}
		return payload, nil
	}
	return canonical.Value{}, failed
}

// open unwraps the content key of an entry and opens the ciphertext.
func open(entry canonical.Value, private *ecdh.PrivateKey, nonce, ciphertext []byte) ([]byte, error) {
	eph, err := decodeMember(entry, "eph", 32)
	if err != nil {
		return nil, err
	}
	wrapped, err := decodeMember(entry, "ek", wrappedSize)
	if err != nil {
		return nil, err
	}
	wrapNonce, err := decodeMember(entry, "wn", nonceSize)
	if err != nil {
		return nil, err
	}
	ephemeral, err := ecdh.X25519().NewPublicKey(eph)
	if err != nil {
		return nil, fmt.Errorf("seal: eph: %w", err)
	}
	unwrapper, err := wrapCipher(private, ephemeral)
	if err != nil {
		return nil, err
	}
	contentKey, err := unwrapper.Open(nil, wrapNonce, wrapped, nil)
	if err != nil {
		return nil, errors.New("seal: the wrapped key cannot be opened")
	}
	opener, err := chacha20poly1305.New(contentKey)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	plaintext, err := opener.Open(nil, nonce, ciphertext, nil)
	if err != nil {
		return nil, errors.New("seal: the ciphertext cannot be opened")
	}
	return plaintext, nil
}

// decodeMember reads n octets from a member of an object.
func decodeMember(v canonical.Value, name string, n int) ([]byte, error) {
	text, ok := v.Get(name).Text()
	if !ok {
		return nil, fmt.Errorf("seal: %s: missing", name)
	}
	return decodeB64(name, text, n)
}

func b64Value(octets []byte) canonical.Value { return canonical.String(EncodeB64(octets)) }
