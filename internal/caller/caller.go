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
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/cryptosigner"
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
	alg, ok := algorithmOf(key.Public())
	if !ok {
		return nil, errKey
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: cryptosigner.Opaque(key)}, nil)
	if err != nil {
		return nil, fmt.Errorf("caller: %w", err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return nil, fmt.Errorf("caller: %w", err)
	}
	jwt, err := signed.CompactSerialize()
	switch {
	case err != nil:
		return nil, fmt.Errorf("caller: %w", err)
	case len(jwt) > MaxOctets:
		return nil, ErrSize
	}
	return []byte(jwt), nil
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
	errRepeated  = errors.New("caller: a member is there more than once, or in another spelling")
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
	payload, err := opened(jwt, peer.PublicKey)
	if err != nil {
		return nil, none, err
	}
	var t token
	if json.Unmarshal(payload, &t) != nil {
		return nil, none, errForm
	}
	if err := checkMembers(payload); err != nil {
		return nil, none, err
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

// claims are the names of the members that Verify reads.
var claims = []string{"sub", "aud", "iat", "exp", "cnf", "act", "x5t#S256"}

// checkMembers returns an error if an object of a JSON value has a member twice, or a member whose
// name differs from a claim in the case of its letters only. Decoders differ in which one they use.
func checkMembers(valid []byte) error {
	d := json.NewDecoder(bytes.NewReader(valid))
	var open []map[string]bool // the names in each object around; nil for an array
	named := false             // the next string is a value
	for {
		t, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return errForm
		}
		name, text := t.(string)
		if text && !named && len(open) > 0 && open[len(open)-1] != nil {
			names := open[len(open)-1]
			if names[name] || slices.ContainsFunc(claims, func(claim string) bool { return name != claim && strings.EqualFold(name, claim) }) {
				return errRepeated
			}
			names[name], named = true, true
			continue
		}
		named = false
		switch t {
		case json.Delim('{'):
			open = append(open, make(map[string]bool))
		case json.Delim('['):
			open = append(open, nil)
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
	}
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

// opened returns the payload of a JWT that was signed with a key.
func opened(jwt []byte, key crypto.PublicKey) ([]byte, error) {
	alg, ok := algorithmOf(key)
	if !ok {
		return nil, errKey
	}
	for part := range bytes.SplitSeq(jwt, []byte{'.'}) { // the library skips line ends and spare bits
		if _, err := encoding.AppendDecode(nil, part); err != nil || bytes.ContainsAny(part, "\r\n") {
			return nil, errForm
		}
	}
	signed, err := jose.ParseSignedCompact(string(jwt), []jose.SignatureAlgorithm{alg})
	switch {
	case errors.As(err, new(*jose.ErrUnexpectedSignatureAlgorithm)):
		return nil, errAlgorithm
	case err != nil:
		return nil, errForm
	}
	for name := range signed.Signatures[0].Protected.ExtraHeaders { // others may change the meaning of the token
		if name != jose.HeaderType && name != "x5t#S256" {
			return nil, errForm
		}
	}
	payload, err := signed.Verify(key)
	if err != nil {
		return nil, errSignature
	}
	return payload, nil
}

// algorithmOf returns the algorithm of JWS for a key. The key alone decides which.
func algorithmOf(public crypto.PublicKey) (_ jose.SignatureAlgorithm, ok bool) {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return jose.ES256, true
		case elliptic.P384():
			return jose.ES384, true
		case elliptic.P521():
			return jose.ES512, true
		}
	case ed25519.PublicKey:
		return jose.EdDSA, true
	case *rsa.PublicKey:
		return jose.PS256, true
	}
	return "", false
}
