// Package caller makes and verifies assertions of callers (extension 51 of any profile):
// an endpoint that forwards a message tells its partner for whom. An assertion is a JWT
// (RFC 7519) signed with the key of the certificate that the endpoint has presented on the
// connection, so it is worth nothing on another connection or at another endpoint.
//
// Specification: docs/wire.md, "Callers".
package caller

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	_ "crypto/sha512" // for ES384 and ES512
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// Limits of assertions.
const (
	MaxOctets = 1024             // of the JWT
	MaxChain  = 8                // endpoints in act
	Valid     = 60 * time.Second // from iat to exp
	Skew      = 30 * time.Second // of the clocks, in both directions
)

// Claim says for whom an endpoint acts.
type Claim struct {
	// Caller is the identity of the caller at the first endpoint, or a pseudonym.
	Caller string

	// Chain has the identities of the endpoints: first the one that makes the assertion,
	// last the one that the caller is connected to.
	Chain []string
}

// token is the payload of the JWT.
type token struct {
	Subject  string  `json:"sub"`
	Audience string  `json:"aud"`
	Issued   int64   `json:"iat"`
	Expires  int64   `json:"exp"`
	Confirm  confirm `json:"cnf"`
	Actor    *actor  `json:"act"`
}

type confirm struct {
	Leaf string `json:"x5t#S256"`
}

// actor is one endpoint of the chain, and the one before it.
type actor struct {
	Subject string `json:"sub"`
	Before  *actor `json:"act,omitempty"`
}

// Errors of Sign. They depend on the claim.
var (
	ErrSize  = fmt.Errorf("caller: the assertion has more than %d octets", MaxOctets)
	ErrChain = fmt.Errorf("caller: more than %d endpoints in the chain", MaxChain)
	ErrName  = errors.New("caller: an identity that is empty or has other than visible ASCII characters")
)

// Sign returns the assertion of a claim for an audience, which is the identity of the
// endpoint at the other end. own is the certificate of this end of the connection. The
// assertion is valid for the time Valid.
func Sign(c *Claim, own *tls.Certificate, audience string, now time.Time) ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	t := token{
		Subject: c.Caller, Audience: audience, Issued: now.Unix(), Expires: now.Add(Valid).Unix(),
		Confirm: confirm{thumbprint(own.Certificate[0])},
	}
	for _, endpoint := range slices.Backward(c.Chain) {
		t.Actor = &actor{Subject: endpoint, Before: t.Actor}
	}
	payload, err := marshal(&t)
	if err != nil {
		return nil, err
	}
	key, ok := own.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errKey
	}
	alg := algorithmOf(key.Public())
	if alg == nil {
		return nil, errKey
	}
	jwt := encoding.AppendEncode(nil, alg.header)
	jwt = encoding.AppendEncode(append(jwt, '.'), payload)
	signature, err := alg.sign(key, jwt)
	if err != nil {
		return nil, fmt.Errorf("caller: %w", err)
	}
	if jwt = encoding.AppendEncode(append(jwt, '.'), signature); len(jwt) > MaxOctets {
		return nil, ErrSize
	}
	return jwt, nil
}

// marshal is json.Marshal without escapes for HTML, which make the assertion longer.
func marshal(t *token) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(t)
	return bytes.TrimSpace(b.Bytes()), err
}

// Errors of Verify. They contain no part of the assertion.
var (
	errKey       = errors.New("caller: the key of the certificate is not of an elliptic curve of NIST, Ed25519 or RSA")
	errForm      = errors.New("caller: not a JWT in compact form, or with members of the wrong type")
	errAlgorithm = errors.New("caller: alg is not that of the certificate of this connection")
	errSignature = errors.New("caller: not signed with the certificate of this connection")
	errAudience  = errors.New("caller: aud is not this endpoint")
	errConfirm   = errors.New("caller: cnf is not the certificate of this connection")
	errPresenter = errors.New("caller: act does not begin with the peer of this connection")
	errSpan      = fmt.Errorf("caller: not valid for at most %v", Valid)

	// ErrTime is the error of an assertion that was valid earlier, or will be later. The
	// clocks of the two endpoints may differ by more than Skew.
	ErrTime = errors.New("caller: expired, or issued in the future")
)

// Verify returns the claim of an assertion, and the time until which it is accepted. peer is
// the certificate of the other end of the connection, identity its identity, audience that
// of this endpoint.
func Verify(jwt []byte, peer *x509.Certificate, identity, audience string, now time.Time) (*Claim, time.Time, error) {
	none := time.Time{}
	if len(jwt) > MaxOctets {
		return nil, none, ErrSize
	}
	header, rest, _ := bytes.Cut(jwt, []byte{'.'})
	body, signature, ok := bytes.Cut(rest, []byte{'.'})
	if !ok {
		return nil, none, errForm
	}
	alg := algorithmOf(peer.PublicKey)
	if alg == nil {
		return nil, none, errKey
	}
	if err := alg.checkHeader(header); err != nil {
		return nil, none, err
	}
	sum, err := decode(signature)
	if err != nil {
		return nil, none, err
	}
	if !alg.verify(peer.PublicKey, jwt[:len(header)+1+len(body)], sum) {
		return nil, none, errSignature
	}
	payload, err := decode(body)
	if err != nil {
		return nil, none, err
	}
	var t token
	if json.Unmarshal(payload, &t) != nil {
		return nil, none, errForm
	}
	expires := time.Unix(t.Expires, 0)
	issued := time.Unix(t.Issued, 0)
	switch {
	case t.Audience != audience:
		return nil, none, errAudience
	case subtle.ConstantTimeCompare([]byte(t.Confirm.Leaf), []byte(thumbprint(peer.Raw))) == 0:
		return nil, none, errConfirm
	case !expires.After(issued), expires.Sub(issued) > Valid:
		return nil, none, errSpan
	case now.Before(issued.Add(-Skew)), now.After(expires.Add(Skew)):
		return nil, none, ErrTime
	case t.Actor == nil || t.Actor.Subject != identity:
		return nil, none, errPresenter
	}
	c := &Claim{Caller: t.Subject}
	for a := t.Actor; a != nil; a = a.Before {
		c.Chain = append(c.Chain, a.Subject)
	}
	return c, expires.Add(Skew), c.check()
}

func (c *Claim) check() error {
	if len(c.Chain) > MaxChain {
		return ErrChain
	}
	for _, name := range append(slices.Clone(c.Chain), c.Caller) {
		if name == "" || slices.ContainsFunc([]byte(name), func(b byte) bool { return b <= ' ' || b >= 0x7f }) {
			return ErrName
		}
	}
	return nil
}

func thumbprint(der []byte) string {
	sum := sha256.Sum256(der)
	return encoding.EncodeToString(sum[:])
}

var encoding = base64.RawURLEncoding.Strict()

func decode(text []byte) ([]byte, error) {
	if bytes.ContainsAny(text, "\r\n") { // the library skips them
		return nil, errForm
	}
	octets, err := encoding.AppendDecode(nil, text)
	if err != nil {
		return nil, errForm
	}
	return octets, nil
}

// algorithm is one of JWS (RFC 7518, RFC 8037). The key alone decides which.
type algorithm struct {
	name   string
	header []byte
	hash   crypto.Hash // 0: of the message itself
	size   int         // of r and s in a signature of ECDSA; 0 for other keys
}

func newAlgorithm(name string, hash crypto.Hash, size int) *algorithm {
	return &algorithm{name: name, header: []byte(`{"alg":"` + name + `"}`), hash: hash, size: size}
}

var (
	es256 = newAlgorithm("ES256", crypto.SHA256, 32)
	es384 = newAlgorithm("ES384", crypto.SHA384, 48)
	es512 = newAlgorithm("ES512", crypto.SHA512, 66)
	eddsa = newAlgorithm("EdDSA", 0, 0)
	ps256 = newAlgorithm("PS256", crypto.SHA256, 0)
)

// algorithmOf returns the algorithm of a key, nil if there is none.
func algorithmOf(public crypto.PublicKey) *algorithm {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return es256
		case elliptic.P384():
			return es384
		case elliptic.P521():
			return es512
		}
	case ed25519.PublicKey:
		return eddsa
	case *rsa.PublicKey:
		return ps256
	}
	return nil
}

// checkHeader refuses another algorithm, and headers that change the meaning of the token.
func (a *algorithm) checkHeader(text []byte) error {
	octets, err := decode(text)
	if err != nil {
		return err
	}
	var h map[string]any
	if json.Unmarshal(octets, &h) != nil {
		return errForm
	}
	for name := range h {
		switch name {
		case "alg", "typ", "kid", "x5t#S256":
		default:
			return errForm
		}
	}
	if h["alg"] != a.name {
		return errAlgorithm
	}
	return nil
}

func (a *algorithm) digest(message []byte) []byte {
	if a.hash == 0 {
		return message
	}
	h := a.hash.New()
	_, _ = h.Write(message) // never fails
	return h.Sum(nil)
}

var pss = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}

func (a *algorithm) sign(key crypto.Signer, message []byte) ([]byte, error) {
	var opts crypto.SignerOpts = a.hash
	if a == ps256 {
		opts = pss
	}
	signature, err := key.Sign(rand.Reader, a.digest(message), opts)
	if err != nil || a.size == 0 {
		return signature, err
	}
	var point struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(signature, &point); err != nil {
		return nil, err
	}
	fixed := make([]byte, 2*a.size)
	point.R.FillBytes(fixed[:a.size])
	point.S.FillBytes(fixed[a.size:])
	return fixed, nil
}

func (a *algorithm) verify(public crypto.PublicKey, message, signature []byte) bool {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		return len(signature) == 2*a.size &&
			ecdsa.Verify(key, a.digest(message), new(big.Int).SetBytes(signature[:a.size]), new(big.Int).SetBytes(signature[a.size:]))
	case ed25519.PublicKey:
		return ed25519.Verify(key, message, signature)
	case *rsa.PublicKey:
		return rsa.VerifyPSS(key, crypto.SHA256, a.digest(message), signature, pss) == nil
	}
	return false
}
