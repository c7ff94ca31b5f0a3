package cred

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/profiles"
)

// Claims are the signed claims of a token.
type Claims struct {
	Issuer    string
	Subject   string
	Audience  []string
	Expires   time.Time // exp; zero if it has none
	NotBefore time.Time // nbf; zero if it has none
	Scopes    []string
	Leaf      string // SHA-256 of the certificate it is bound to, in hexadecimal; may be empty

	// Bearer says that the issuer issues bearer tokens.
	Bearer bool

	// Key names the key that has verified the token, for Trusts.
	Key string
}

// Tokens verifies the form and the signature of tokens, and no times. It must not
// wait, and is safe for concurrent use.
type Tokens interface {
	// Verify returns the claims of a token. The token must be signed by an issuer of
	// first credentials, or if delegation is set by an issuer of delegations. The
	// error has no part of the token in it.
	Verify(token []byte, delegation bool) (*Claims, error)

	// Trusts reports whether a key would still verify tokens of an issuer.
	Trusts(issuer, key string, delegation bool) bool
}

// Digests lists opaque credentials. It must not wait, and is safe for concurrent
// use.
type Digests interface {
	// Listed reports in constant time whether sum is listed.
	Listed(sum [sha256.Size]byte) bool
}

// Codes of CRED_ERR, which are also the details of the errors of this profile. Other
// codes are the names of canonical codes, such as RATE_LIMIT_EXCEEDED.
const (
	CodeUnsupported = "UNSUPPORTED_CRED_TYPE"
	CodeInvalid     = "INVALID_CREDENTIAL"
	CodeExpired     = "EXPIRED"
	CodeRevoked     = "REVOKED"
	CodeLimit       = "CHAIN_LIMIT"
)

// canonical are the canonical codes for reports and logs, by the code of CRED_ERR.
var canonical = map[string]profiles.Code{
	CodeUnsupported: profiles.InvalidProfilePayload,
	CodeInvalid:     profiles.InvalidProfilePayload,
	CodeExpired:     profiles.InvalidProfilePayload,
	CodeRevoked:     profiles.SecurityPolicy,
	CodeLimit:       profiles.InvalidProfilePayload,
}

// refuse is the error of a refused message. Its text must have no part of a credential.
func refuse(code, format string, args ...any) *profiles.Error {
	return &profiles.Error{Code: canonical[code], Detail: code, Text: "cred: " + fmt.Sprintf(format, args...)}
}

// link is a verified part of a chain.
type link struct {
	sum     [sha256.Size]byte // SHA-256 of its octets
	issuer  string
	subject string
	scopes  []string
	key     string // the key that has verified it; jwt only
	leaf    string // SHA-256 of the leaf certificate it is bound to, in hexadecimal
	bearer  bool
	expires int64 // the expiry in the credential, in unix milliseconds
	until   int64 // the expiry on the steady clock
	said    int64 // expires_at_unix_ms of the DELEGATE; 0 of a PRESENT
	endless bool  // the credential has no expiry
	kept    bool  // its octets were given to the Store
}

// credType returns the canonical form of a type of credentials.
func credType(tag []byte) string { return strings.ToLower(strings.TrimSpace(string(tag))) }

// first verifies the credential of a PRESENT.
func (s *Service) first(kind string, credential []byte, peer *profiles.Peer) (*link, error) {
	l := &link{sum: sha256.Sum256(credential), subject: profiles.Link(peer.Identity), expires: s.clock.now() + s.limits.Load().MaxLifetime.Milliseconds(), endless: true}
	switch {
	case kind == JWT && s.opts.Takes(JWT):
		if err := s.token(l, credential, false, peer); err != nil {
			return nil, err
		}
		l.endless = false
	case kind == MTLS:
		if len(credential) != sha256.Size || hex.EncodeToString(credential) != peer.Fingerprint {
			return nil, refuse(CodeInvalid, "the credential is not the SHA-256 of the certificate of this channel")
		}
		l.leaf = peer.Fingerprint
	case kind == Opaque && s.opts.Takes(Opaque):
		if !s.opts.Digests.Listed(l.sum) {
			return nil, refuse(CodeInvalid, "the credential is not known here")
		}
	default:
		return nil, refuse(CodeUnsupported, "credentials of the type %.32q are not accepted here", kind)
	}
	l.until = s.clock.until(l.expires)
	return l, nil
}

// token verifies a token, and copies its claims to l.
func (s *Service) token(l *link, octets []byte, delegation bool, peer *profiles.Peer) error {
	c, err := s.opts.Tokens.Verify(octets, delegation)
	if err != nil {
		fault := refuse(CodeInvalid, "no known key verifies the token")
		fault.Cause = err
		return fault
	}
	limits := s.limits.Load()
	now, leeway := s.clock.now(), limits.Leeway.Milliseconds()
	size := len(c.Scopes)
	for _, scope := range c.Scopes {
		size += len(scope)
	}
	ours := func(name string) bool { return slices.Contains(limits.Audience, name) }
	switch {
	case c.Expires.IsZero():
		return refuse(CodeInvalid, "the token has no exp")
	case c.Expires.UnixMilli()+leeway <= now:
		return refuse(CodeExpired, "the token has expired")
	case c.NotBefore.UnixMilli()-leeway > now && !c.NotBefore.IsZero():
		return refuse(CodeInvalid, "the token is not yet valid")
	case !slices.ContainsFunc(c.Audience, ours):
		return refuse(CodeInvalid, "the token is not for this endpoint")
	case c.Subject == "" || len(c.Subject) > maxName || len(c.Issuer) > maxName || size > maxScopes:
		return refuse(CodeInvalid, "the token has no sub, or its names or scopes are too long")
	case c.Leaf != "" && !delegation && c.Leaf != peer.Fingerprint:
		return refuse(CodeInvalid, "the token is bound to another certificate")
	}
	l.issuer, l.subject, l.scopes, l.key, l.leaf, l.bearer = c.Issuer, c.Subject, c.Scopes, c.Key, c.Leaf, c.Bearer
	l.expires = c.Expires.UnixMilli() + leeway
	return nil
}

// next verifies the link that a DELEGATE adds to a chain.
func (s *Service) next(kind string, parent *link, sum [sha256.Size]byte, m *Delegate, peer *profiles.Peer) (*link, error) {
	now, longest := s.clock.now(), s.limits.Load().MaxLifetime
	switch {
	case m.Expires <= uint64(max(now, 0)):
		return nil, refuse(CodeExpired, "the delegation has expired")
	case m.Expires > uint64(now+longest.Milliseconds()):
		return nil, refuse(CodeInvalid, "the delegation lasts longer than %v", longest)
	case m.Expires > uint64(parent.expires):
		return nil, refuse(CodeInvalid, "the delegation lasts longer than its predecessor in the chain")
	}
	l := &link{sum: sum, said: int64(m.Expires), issuer: parent.subject, subject: parent.subject, scopes: parent.scopes}
	if kind == JWT {
		if err := s.token(l, m.Delegation, true, peer); err != nil {
			return nil, err
		}
		foreign := func(scope string) bool { return !slices.Contains(parent.scopes, scope) }
		switch {
		case l.issuer != parent.subject:
			return nil, refuse(CodeInvalid, "the issuer of the delegation is not the subject of its predecessor in the chain")
		case l.expires > parent.expires:
			return nil, refuse(CodeInvalid, "the delegation lasts longer than its predecessor in the chain")
		case slices.ContainsFunc(l.scopes, foreign):
			return nil, refuse(CodeInvalid, "the delegation has a scope that its predecessor in the chain does not have")
		}
		l.expires = min(l.expires, int64(m.Expires))
	} else {
		l.expires = int64(m.Expires)
	}
	l.until = min(s.clock.until(l.expires), parent.until)
	return l, nil
}
