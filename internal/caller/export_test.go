package caller

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/cryptosigner"
)

// SignPayload returns a JWT.
func SignPayload(t testing.TB, own *tls.Certificate, payload string) []byte {
	t.Helper()
	key := own.PrivateKey.(crypto.Signer)
	alg, _ := algorithmOf(key.Public())
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: cryptosigner.Opaque(key)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	jwt, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return []byte(jwt)
}

// SignHeader returns the JWT with another header, signed again with a key of P-256.
func SignHeader(t testing.TB, own *tls.Certificate, header string, jwt []byte) []byte {
	t.Helper()
	signed := encoding.EncodeToString([]byte(header)) + "." + string(bytes.Split(jwt, []byte("."))[1])
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, own.PrivateKey.(*ecdsa.PrivateKey), sum[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return []byte(signed + "." + encoding.EncodeToString(signature))
}
