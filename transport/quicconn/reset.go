package quicconn

import (
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/x509"

	"github.com/quic-go/quic-go"

	"github.com/slimwire/swp/transport"
)

// resetInfo separates this key from other keys derived from the same
// certificate key.
const resetInfo = "swp quic stateless reset"

// resetKey returns the key by which a listener tells peers of an earlier process that their
// connections have ended (stateless reset, RFC 9000 §10.3). Without it they would detect
// this after a minute of silence. The key is derived from the private key, so that the next
// process has the same one. It is nil, and no reset is sent, if the private key cannot be
// read.
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
