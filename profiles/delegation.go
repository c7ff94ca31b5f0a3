package profiles

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slimwire/swp/e1"
)

// Delegation is the verified content of the credentials of an exchange: on whose behalf it
// runs, and in which scopes (SWP profiles §15). It is immutable.
type Delegation struct {
	ChainID string // opaque octets
	Owner   string // the authenticated identity that presented the chain

	Type    string    // of the first credential: jwt, mtls or opaque
	Issuer  string    // the issuer of the first credential; empty if its type has none
	Subject string    // the subject of the last credential that has one
	Scopes  []string  // of the last credential, in its order
	Expires time.Time // the earliest expiry of the credentials
	Depth   int       // the number of credentials

	// Watch calls ended once, on another goroutine, with the error of Chains.Delegation when
	// the chain ends, unless stop is called before. Work under the chain ends then. Nil: the
	// end of the chain is not noticed.
	Watch func(ended func(*Error)) (stop func())
}

// Chains knows the credentials that were presented to this endpoint.
type Chains interface {
	// Delegation returns the delegation of a chain for a peer at this moment. A Peer with
	// only an Identity stands for a peer without a connection. The error is ErrChain if the
	// chain does not exist or the peer may not use it now; for the owner of the chain it is
	// ErrRevoked or ErrExpired if that applies. Delegation does not block, and is safe for
	// concurrent use.
	Delegation(peer *Peer, chainID []byte) (*Delegation, error)
}

// ChainOfNoUse is in the Text of ErrChain, ErrRevoked and ErrExpired, and then a colon and why:
// ChainRevoked, ChainExpired or, of ErrChain, all possible reasons.
const (
	ChainOfNoUse = "names a chain of credentials that is of no use here now"
	ChainRevoked = "it was revoked"
	ChainExpired = "it has expired"
)

// ErrChain refuses an exchange whose chain does not exist, belongs to another identity, has
// expired or was revoked. The peer does not learn which: only the owner of the chain does.
var ErrChain = &Error{
	Code: SecurityPolicy, Detail: "cred_chain", Text: "the exchange " + ChainOfNoUse + ": " +
		"it is not known here, has expired, or is not for this identity",
}

// ErrRevoked and ErrExpired replace ErrChain for the identity that presented the chain.
var (
	ErrRevoked = &Error{Code: SecurityPolicy, Detail: "cred_chain", Text: "the exchange " + ChainOfNoUse + ": " + ChainRevoked}
	ErrExpired = &Error{Code: SecurityPolicy, Detail: "cred_chain", Text: "the exchange " + ChainOfNoUse + ": " + ChainExpired}
)

// WithDelegation returns ctx with a delegation.
func WithDelegation(ctx context.Context, d *Delegation) context.Context {
	c := carriedBy(ctx)
	c.delegation = d
	return c.in(ctx)
}

// DelegationOf returns the delegation that ctx carries, nil if it carries none. The context
// of a handler carries the delegation of its exchange, which was valid when the exchange
// began.
func DelegationOf(ctx context.Context) *Delegation { return carriedBy(ctx).delegation }

// WithoutDelegation returns a context in which Delegated fails with err.
func WithoutDelegation(ctx context.Context, err error) context.Context {
	c := carriedBy(ctx)
	c.refusal = err
	return c.in(ctx)
}

// Delegated returns nil if ctx, of a message that names a chain, has its delegation. Else
// the error is that of WithoutDelegation, or ErrChain: such a message is refused.
func Delegated(ctx context.Context) error {
	switch c := carriedBy(ctx); {
	case c.refusal != nil:
		return c.refusal
	case c.delegation == nil:
		return ErrChain
	}
	return nil
}

// WithChain returns ctx with a chain_id: messages to peers in this context carry it in
// extension 50. The caller must have presented the chain on the same lane before.
func WithChain(ctx context.Context, chainID []byte) context.Context {
	c := carriedBy(ctx)
	c.chain = string(chainID)
	return c.in(ctx)
}

// ChainOf returns the chain_id that WithChain has set, or empty.
func ChainOf(ctx context.Context) []byte { return []byte(carriedBy(ctx).chain) }

// FormatDelegation returns a delegation as one line of printable ASCII, for headers and
// environment variables: name=value pairs with ", " between them, the values
// percent-encoded. expires is in Unix seconds. Scopes are joined by a plus. The line has at
// most 16 KiB.
func FormatDelegation(d *Delegation) string {
	return "type=" + url.QueryEscape(d.Type) + ", issuer=" + url.QueryEscape(d.Issuer) + ", subject=" + url.QueryEscape(d.Subject) +
		", scope=" + url.QueryEscape(strings.Join(d.Scopes, " ")) + ", owner=" + url.QueryEscape(d.Owner) +
		", expires=" + strconv.FormatInt(d.Expires.Unix(), 10) + ", depth=" + strconv.Itoa(d.Depth)
}

// AppendChain returns ext with extension 50 if ctx has a chain_id. An endpoint calls it for
// each message that it sends.
func AppendChain(ctx context.Context, ext e1.Extensions) e1.Extensions {
	if c, ok := ctx.Value(carriedKey{}).(*carried); ok && c.chain != "" {
		return e1.AppendExtension(slices.Clip(ext), ExtChain, []byte(c.chain))
	}
	return ext
}
