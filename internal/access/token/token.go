// Package token verifies signed tokens (JWT, RFC 7519) with configured keys; it never
// fetches keys. Only this package uses the JOSE library.
//
// Tokens must be in compact form and signed with EdDSA (Ed25519), ES256, ES384, RS256 or
// PS256. The key determines the algorithm, not the header of the token. Keys in or
// referenced by a token are never used. Tokens with critical headers are refused.
package token

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/slimwire/swp/profiles/cred"
)

// Issuer configures the verification of the tokens of one issuer.
type Issuer struct {
	Keys []Key

	// Delegates says that tokens of this issuer are delegations: such a token extends a
	// chain that names the issuer as subject, and cannot start a chain.
	Delegates bool

	// Bearer says that a token of this issuer is valid for any holder, not only for its
	// subject.
	Bearer bool
}

// Verifier verifies the tokens of issuers. It implements cred.Tokens, and is safe
// for concurrent use.
type Verifier struct {
	issuers atomic.Pointer[map[string]Issuer]
}

var _ cred.Tokens = (*Verifier)(nil)

// New returns a Verifier; issuers are by the value of iss.
func New(issuers map[string]Issuer) *Verifier {
	v := new(Verifier)
	v.Set(issuers)
	return v
}

// Set replaces the issuers. Results that rest on a removed key lose their trust.
func (v *Verifier) Set(issuers map[string]Issuer) { v.issuers.Store(&issuers) }

var algorithms = []jose.SignatureAlgorithm{jose.EdDSA, jose.ES256, jose.ES384, jose.RS256, jose.PS256}

// maxToken limits a token, in octets.
const maxToken = cred.MaxCredential

// Errors of Verify. They never contain parts of the token.
var (
	errForm      = errors.New("token: not a signed token in compact form, or signed with an algorithm that is not taken")
	errHeader    = errors.New("token: critical headers, or a type that is not JWT")
	errClaims    = errors.New("token: claims that cannot be read")
	errIssuer    = errors.New("token: not of an issuer that is configured for this")
	errSignature = errors.New("token: no key of the issuer has signed it")
)

// claims are the claims that are read.
type claims struct {
	Issuer    string       `json:"iss"`
	Subject   string       `json:"sub"`
	Audience  jwt.Audience `json:"aud"`
	Expires   *float64     `json:"exp"`
	NotBefore *float64     `json:"nbf"`
	Scope     string       `json:"scope"`
	Confirm   *struct {
		Leaf thumbprint `json:"x5t#S256"`
		JWK  any        `json:"jwk"`
		JWE  any        `json:"jwe"`
		KID  any        `json:"kid"`
		JKT  any        `json:"jkt"`
	} `json:"cnf"`
}

// Verify implements cred.Tokens.
func (v *Verifier) Verify(token []byte, delegation bool) (*cred.Claims, error) {
	foreign := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	}
	if len(token) > maxToken || bytes.ContainsFunc(token, foreign) { // the library would skip line ends
		return nil, errForm
	}
	signed, err := jose.ParseSignedCompact(string(token), algorithms)
	if err != nil || len(signed.Signatures) != 1 {
		return nil, errForm
	}
	header := &signed.Signatures[0].Protected
	if err := checkHeader(header); err != nil {
		return nil, err
	}
	var c claims
	if err := json.Unmarshal(signed.UnsafePayloadWithoutVerification(), &c); err != nil {
		return nil, errClaims
	}
	issuer, ok := (*v.issuers.Load())[c.Issuer]
	if !ok || issuer.Delegates != delegation || c.Issuer == "" {
		return nil, errIssuer
	}
	for _, key := range issuer.Keys {
		if !key.fits(header) {
			continue
		}
		if _, err := signed.Verify(key.public); err == nil {
			return c.checked(issuer.Bearer, key.name)
		}
	}
	return nil, errSignature
}

// Trusts implements cred.Tokens.
func (v *Verifier) Trusts(name, key string, delegation bool) bool {
	issuer, ok := (*v.issuers.Load())[name]
	return ok && issuer.Delegates == delegation && slices.ContainsFunc(issuer.Keys, func(k Key) bool { return k.name == key })
}

// checkHeader refuses headers that would change the meaning of a token.
func checkHeader(h *jose.Header) error {
	for name, value := range h.ExtraHeaders {
		switch name {
		case "crit", "b64", "zip", "cty":
			return errHeader
		case jose.HeaderType:
			text, _ := value.(string)
			switch strings.ToLower(strings.TrimPrefix(strings.ToLower(text), "application/")) {
			case "jwt", "at+jwt", "delegation+jwt":
			default:
				return errHeader
			}
		}
	}
	return nil
}

// checked validates and returns the claims of a verified token.
func (c *claims) checked(bearer bool, key string) (*cred.Claims, error) {
	out := &cred.Claims{
		Issuer: c.Issuer, Subject: c.Subject, Audience: c.Audience, Scopes: strings.Fields(c.Scope), Bearer: bearer, Key: key,
	}
	var err error
	if out.Expires, err = date(c.Expires); err != nil {
		return nil, err
	}
	if out.NotBefore, err = date(c.NotBefore); err != nil {
		return nil, err
	}
	if cnf := c.Confirm; cnf != nil {
		if cnf.Leaf == "" || cnf.JWK != nil || cnf.JWE != nil || cnf.KID != nil || cnf.JKT != nil {
			return nil, errClaims // the token is bound to a key (cnf), whose possession is not verified here
		}
		out.Leaf = string(cnf.Leaf)
	}
	return out, nil
}

// maxDate is the end of the year 9999, in seconds.
const maxDate = 253402300799

// date reads a NumericDate, in seconds.
func date(seconds *float64) (time.Time, error) {
	switch {
	case seconds == nil:
		return time.Time{}, nil
	case !(*seconds >= 1 && *seconds <= maxDate):
		return time.Time{}, fmt.Errorf("%w: a date that is none", errClaims)
	}
	return time.UnixMilli(int64(*seconds * 1000)), nil
}
