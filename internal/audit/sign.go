package audit

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/slimwire/swp/transport"
)

// signed returns the octets that a checkpoint signs: everything up to a record.
func signed(identity string, sequence uint64, hash Sum) []byte {
	return fmt.Appendf(nil, "SWP audit checkpoint 1\n%s\n%d\n%x\n", identity, sequence, hash)
}

// sign signs with the key of a certificate.
func sign(cert *tls.Certificate, octets []byte) ([]byte, error) {
	key, ok := cert.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("audit: the key of the endpoint cannot sign")
	}
	var opts crypto.SignerOpts = crypto.SHA256
	switch key.Public().(type) {
	case ed25519.PublicKey:
		return key.Sign(rand.Reader, octets, crypto.Hash(0))
	case *rsa.PublicKey:
		opts = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}
	}
	sum := sha256.Sum256(octets)
	return key.Sign(rand.Reader, sum[:], opts)
}

// check verifies a signature of sign.
func check(cert *x509.Certificate, octets, signature []byte) error {
	algorithm := x509.UnknownSignatureAlgorithm
	switch cert.PublicKey.(type) {
	case *ecdsa.PublicKey:
		algorithm = x509.ECDSAWithSHA256
	case *rsa.PublicKey:
		algorithm = x509.SHA256WithRSAPSS
	case ed25519.PublicKey:
		algorithm = x509.PureEd25519
	}
	return cert.CheckSignature(algorithm, octets, signature)
}

// fingerprint returns the name of a certificate in records.
func fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// TrustOf trusts the certificates of one identity that an authority has signed.
func TrustOf(identity string, roots *x509.CertPool) Trust {
	holders := TrustHolders(roots)
	return func(signer string, chain []*x509.Certificate, at time.Time) error {
		if signer != identity {
			return fmt.Errorf("it is of %q, want %q", signer, identity)
		}
		return holders(signer, chain, at)
	}
}

// TrustHolders trusts the certificates of any identity that an authority has signed.
func TrustHolders(roots *x509.CertPool) Trust {
	return func(signer string, chain []*x509.Certificate, at time.Time) error {
		held, err := transport.Identity(chain[0])
		if err != nil {
			return err
		}
		if held != signer {
			return fmt.Errorf("its certificate is of %q, want %q", held, signer)
		}
		return transport.VerifySigner(roots, chain, at)
	}
}
