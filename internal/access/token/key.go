package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

// Key is a public key that verifies tokens.
type Key struct {
	public     any
	id         string // kid; empty matches any
	name       string // SHA-256 thumbprint (RFC 7638), in hexadecimal
	algorithms []jose.SignatureAlgorithm
}

// Thumbprint names the key: its SHA-256 thumbprint (RFC 7638), in hexadecimal.
func (k *Key) Thumbprint() string { return k.name }

// MaxKeys limits the keys of one file: a token may be tried with each of them.
const MaxKeys = 16

// ParseKeys reads the keys of a file: a JWK Set, one JWK, or PEM blocks of public keys and
// certificates. It fails for a key that is not public or suits no supported algorithm, for
// no keys, and for more than MaxKeys.
func ParseKeys(file []byte) ([]Key, error) {
	var keys []Key
	var err error
	if text := strings.TrimSpace(string(file)); strings.HasPrefix(text, "{") {
		keys, err = parseJWKS([]byte(text))
	} else {
		keys, err = parsePEM(file)
	}
	if err == nil && (len(keys) == 0 || len(keys) > MaxKeys) {
		err = fmt.Errorf("token: %d keys, want 1 to %d", len(keys), MaxKeys)
	}
	return keys, err
}

func parseJWKS(file []byte) ([]Key, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(file, &set); err != nil {
		return nil, errors.New("token: not a JWK Set")
	}
	if set.Keys == nil {
		set.Keys = []json.RawMessage{file}
	}
	var keys []Key
	for i, raw := range set.Keys {
		var k jose.JSONWebKey
		if err := k.UnmarshalJSON(raw); err != nil || !k.Valid() {
			return nil, fmt.Errorf("token: key %d cannot be read", i+1)
		}
		if !k.IsPublic() {
			return nil, fmt.Errorf("token: key %d is not a public key, and has no place here", i+1)
		}
		if k.Use != "" && k.Use != "sig" {
			continue // not a signature key
		}
		key, err := newKey(k.Key, k.KeyID, k.Algorithm)
		if err != nil {
			return nil, fmt.Errorf("token: key %d: %w", i+1, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func parsePEM(file []byte) ([]Key, error) {
	var keys []Key
	for {
		block, rest := pem.Decode(file)
		if block == nil {
			if len(strings.TrimSpace(string(file))) > 0 {
				return nil, errors.New("token: neither a JWK Set nor PEM")
			}
			return keys, nil
		}
		file = rest
		var public any
		var err error
		switch block.Type {
		case "PUBLIC KEY":
			public, err = x509.ParsePKIXPublicKey(block.Bytes)
		case "CERTIFICATE":
			var cert *x509.Certificate
			if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
				public = cert.PublicKey
			}
		default:
			return nil, fmt.Errorf("token: PEM block %.40q, want PUBLIC KEY or CERTIFICATE", block.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("token: key %d cannot be read", len(keys)+1)
		}
		key, err := newKey(public, "", "")
		if err != nil {
			return nil, fmt.Errorf("token: key %d: %w", len(keys)+1, err)
		}
		keys = append(keys, key)
	}
}

func newKey(public any, id, algorithm string) (Key, error) {
	k := Key{public: public, id: id, algorithms: suits(public)}
	if algorithm != "" {
		k.algorithms = slices.DeleteFunc(k.algorithms, func(a jose.SignatureAlgorithm) bool { return string(a) != algorithm })
	}
	if len(k.algorithms) == 0 {
		return k, errors.New("want Ed25519, P-256, P-384 or RSA of 2,048 to 4,096 bits, for EdDSA, ES256, ES384, RS256 or PS256")
	}
	sum, err := (&jose.JSONWebKey{Key: public}).Thumbprint(crypto.SHA256)
	if err != nil {
		return k, err
	}
	k.name = hex.EncodeToString(sum)
	return k, nil
}

// suits returns the supported algorithms for a key.
func suits(public any) []jose.SignatureAlgorithm {
	switch key := public.(type) {
	case ed25519.PublicKey:
		return []jose.SignatureAlgorithm{jose.EdDSA}
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return []jose.SignatureAlgorithm{jose.ES256}
		case elliptic.P384():
			return []jose.SignatureAlgorithm{jose.ES384}
		}
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits >= 2048 && bits <= 4096 {
			return []jose.SignatureAlgorithm{jose.RS256, jose.PS256}
		}
	}
	return nil
}

// fits reports whether the key may verify a token with this header.
func (k *Key) fits(h *jose.Header) bool {
	return slices.Contains(k.algorithms, jose.SignatureAlgorithm(h.Algorithm)) && (h.KeyID == "" || k.id == "" || h.KeyID == k.id)
}

// thumbprint is a SHA-256 that is base64url in JSON and hexadecimal in memory.
type thumbprint string

// UnmarshalJSON implements json.Unmarshaler.
func (t *thumbprint) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	sum, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(sum) != crypto.SHA256.Size() {
		return errors.New("not a SHA-256")
	}
	*t = thumbprint(hex.EncodeToString(sum))
	return nil
}
