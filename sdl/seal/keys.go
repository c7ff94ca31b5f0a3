package seal

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"strings"
)

// ParseSigningKey reads an Ed25519 private key: PEM PKCS#8, not encrypted, or the
// seed in base64url.
func ParseSigningKey(text string) (ed25519.PrivateKey, error) {
	if !isPEM(text) {
		seed, err := decodeB64("signing key", text, ed25519.SeedSize)
		if err != nil {
			return nil, err
		}
		return ed25519.NewKeyFromSeed(seed), nil
	}
	return parsePEM[ed25519.PrivateKey]("signing key", text, privatePEM)
}

// ParseVerifyKey reads an Ed25519 public key: PEM SubjectPublicKeyInfo or the 32 octets in
// base64url. A point of low order is refused, because for such a key one signature is valid
// for every message.
func ParseVerifyKey(text string) (ed25519.PublicKey, error) {
	var key ed25519.PublicKey
	var err error
	if isPEM(text) {
		key, err = parsePEM[ed25519.PublicKey]("verify key", text, publicPEM)
	} else {
		key, err = decodeB64("verify key", text, ed25519.PublicKeySize)
	}
	if err != nil {
		return nil, err
	}
	if lowOrder(key) {
		return nil, fmt.Errorf("seal: verify key: a point of low order")
	}
	return key, nil
}

// ParseDecryptKey reads an X25519 private key: PEM PKCS#8, not encrypted, or the 32
// octets in base64url.
func ParseDecryptKey(text string) (*ecdh.PrivateKey, error) {
	if !isPEM(text) {
		octets, err := decodeB64("decrypt key", text, 32)
		if err != nil {
			return nil, err
		}
		return ecdh.X25519().NewPrivateKey(octets)
	}
	key, err := parsePEM[*ecdh.PrivateKey]("decrypt key", text, privatePEM)
	if err == nil && key.Curve() != ecdh.X25519() {
		return nil, fmt.Errorf("seal: decrypt key: on curve %v, want X25519", key.Curve())
	}
	return key, err
}

// ParseEncryptKey reads an X25519 public key: PEM SubjectPublicKeyInfo or the 32 octets in
// base64url. A point of low order is refused, because its shared secret is known to
// everyone.
func ParseEncryptKey(text string) (*ecdh.PublicKey, error) {
	var key *ecdh.PublicKey
	var err error
	if isPEM(text) {
		key, err = parsePEM[*ecdh.PublicKey]("encrypt key", text, publicPEM)
	} else {
		var octets []byte
		if octets, err = decodeB64("encrypt key", text, 32); err == nil {
			key, err = ecdh.X25519().NewPublicKey(octets)
		}
	}
	if err != nil {
		return nil, err
	}
	if key.Curve() != ecdh.X25519() {
		return nil, fmt.Errorf("seal: encrypt key: on curve %v, want X25519", key.Curve())
	}
	// Every scalar is a multiple of eight, so any scalar maps the points whose order
	// divides eight to zero.
	any32, err := ecdh.X25519().NewPrivateKey(make([]byte, 32))
	if err != nil {
		return nil, err
	}
	if _, err := any32.ECDH(key); err != nil {
		return nil, fmt.Errorf("seal: encrypt key: a point of low order")
	}
	return key, nil
}

// GenerateSigning makes an Ed25519 key pair from 32 random octets; nil means crypto/rand.
func GenerateSigning(random io.Reader) (ed25519.PrivateKey, error) {
	seed, err := draw(random, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// GenerateDecrypt makes an X25519 key pair from 32 random octets; nil means crypto/rand.
func GenerateDecrypt(random io.Reader) (*ecdh.PrivateKey, error) {
	octets, err := draw(random, 32)
	if err != nil {
		return nil, err
	}
	return ecdh.X25519().NewPrivateKey(octets)
}

// draw reads n random octets. The generators of the standard library ignore the reader that
// they are given.
func draw(random io.Reader, n int) ([]byte, error) {
	if random == nil {
		random = rand.Reader
	}
	octets := make([]byte, n)
	if _, err := io.ReadFull(random, octets); err != nil {
		return nil, fmt.Errorf("seal: randomness: %w", err)
	}
	return octets, nil
}

// Key is a key of either algorithm.
type Key interface {
	ed25519.PrivateKey | ed25519.PublicKey | *ecdh.PrivateKey | *ecdh.PublicKey
}

// FormatB64 returns a key as the 32 octets in base64url; of an Ed25519 private key,
// that is the seed.
func FormatB64[K Key](key K) string {
	switch key := any(key).(type) {
	case ed25519.PrivateKey:
		return EncodeB64(key.Seed())
	case ed25519.PublicKey:
		return EncodeB64(key)
	case *ecdh.PrivateKey:
		return EncodeB64(key.Bytes())
	case *ecdh.PublicKey:
		return EncodeB64(key.Bytes())
	}
	panic("unreachable")
}

// FormatPEM returns a key as PEM: PKCS#8 or SubjectPublicKeyInfo.
func FormatPEM[K Key](key K) (string, error) {
	block := pem.Block{Type: privatePEM}
	var err error
	switch key := any(key).(type) {
	case ed25519.PrivateKey, *ecdh.PrivateKey:
		block.Bytes, err = x509.MarshalPKCS8PrivateKey(key)
	default:
		block.Type = publicPEM
		block.Bytes, err = x509.MarshalPKIXPublicKey(key)
	}
	if err != nil {
		return "", fmt.Errorf("seal: key: %w", err)
	}
	return string(pem.EncodeToMemory(&block)), nil
}

// Types of PEM blocks.
const (
	privatePEM = "PRIVATE KEY"
	publicPEM  = "PUBLIC KEY"
)

func isPEM(text string) bool { return strings.HasPrefix(text, "-----BEGIN") }

// parsePEM reads a text with one PEM block, a key of type K.
func parsePEM[K any](what, text, kind string) (key K, err error) {
	block, rest := pem.Decode([]byte(text))
	switch {
	case block == nil:
		return key, fmt.Errorf("seal: %s: no PEM block", what)
	case strings.TrimSpace(string(rest)) != "":
		return key, fmt.Errorf("seal: %s: %d octets after the PEM block", what, len(rest))
	case block.Type != kind:
		return key, fmt.Errorf("seal: %s: PEM block is %q, want %q", what, block.Type, kind)
	}
	var parsed any
	if kind == privatePEM {
		parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	} else {
		parsed, err = x509.ParsePKIXPublicKey(block.Bytes)
	}
	if err != nil {
		return key, fmt.Errorf("seal: %s: %w", what, err)
	}
	key, ok := parsed.(K)
	if !ok {
		return key, fmt.Errorf("seal: %s: PEM block has a %T, want %T", what, parsed, key)
	}
	return key, nil
}

// lowOrder reports whether an Ed25519 public key is one of the points whose order
// divides eight, in any encoding, with either sign of x.
func lowOrder(key ed25519.PublicKey) bool {
	y := [32]byte(key)
	y[31] &= 0x7f
	return lowOrderY[hex.EncodeToString(y[:])]
}

// lowOrderY has the y coordinates of these points, little-endian; the last two are not
// reduced.
var lowOrderY = map[string]bool{
	"0100000000000000000000000000000000000000000000000000000000000000": true, // 1, order 1
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f": true, // -1, order 2
	"0000000000000000000000000000000000000000000000000000000000000000": true, // 0, order 4
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05": true, // order 8
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a": true, // order 8
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f": true, // p, which is 0
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f": true, // p+1, which is 1
}
