package quicconn

import (
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/x509"

	"github.com/quic-go/quic-go"

	"github.com/slimwire/swp/transport"
)

// resetInfo separates this key from others that may be derived from a
// certificate's key one day.
const resetInfo = "swp quic stateless reset"

// resetKey returns the key by which a listener tells peers of an earlier
// process that their connections are gone (stateless reset, RFC 9000 §10.3).
// They would otherwise learn it by silence alone, a minute later. It follows
// from the private key, so that only the next process has the same one. It is
// nil, and peers are not told, where the private key cannot be read.
func resetKey(policy *transport.Policy) *quic.StatelessResetKey {
	creds := policy.Credentials()
	if creds == nil || creds.Certificate == nil {
		return nil
	}
	private, err := x509.MarshalPKCS8PrivateKey(creds.Certificate.PrivateKey)
	if err != nil {
		return nil
	}
	derived, err := hkdf.Key(sha256.New, private, nil, resetInfo, len(quic.StatelessResetKey{}))
	if err != nil {
		return nil
	}
	key := quic.StatelessResetKey(derived)
	return &key
}
