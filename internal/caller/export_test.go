package caller

import (
	"crypto"
	"crypto/tls"
	"testing"
)

// SignBody returns header and payload with a signature.
func SignBody(t testing.TB, own *tls.Certificate, text string) []byte {
	t.Helper()
	key := own.PrivateKey.(crypto.Signer) //nolint:errcheck // of a test
	signature, err := algorithmOf(key.Public()).sign(key, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return encoding.AppendEncode([]byte(text+"."), signature)
}
