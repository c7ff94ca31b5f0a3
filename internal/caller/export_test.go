package caller

import (
	"crypto"
	"crypto/tls"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/cryptosigner"
)

// SignPayload returns a JWT.
func SignPayload(t testing.TB, own *tls.Certificate, payload string) []byte {
	t.Helper()
	key := own.PrivateKey.(crypto.Signer) //nolint:errcheck // of a test
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
