package profiles

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/slimwire/swp/e1"
)

// Delegation is what the credentials of an exchange say, verified: on whose behalf
// it is, and within which scopes (SWP profiles §15). Nobody changes it.
type Delegation struct {
	ChainID string // opaque octets
	Owner   string // the authenticated identity that presented the chain

	Type    string    // of the first credential: jwt, mtls or opaque
	Issuer  string    // who vouches for the first credential; empty if its type names nobody
	Subject string    // whom the last credential that names somebody speaks of
	Scopes  []string  // those of the last one; in the order in which it has them
	Expires time.Time // when the first of them expires
	Depth   int       // how many there are
}

// Chains knows the credentials that were presented to this endpoint.
type Chains interface {
	// Delegation returns the delegation of a chain for a peer at this moment. A Peer of nothing but an
	// Identity stands for one that is not connected. The error is ErrChain if there is no such chain, or
	// none that this peer may use now; ErrRevoked or ErrExpired if it is the peer's own. It does not
	// block, and is safe for concurrent use.
	Delegation(peer *Peer, chainID []byte) (*Delegation, error)
}

// ErrChain refuses an exchange whose chain is not there, belongs to another
// identity, has expired or was revoked: only its owner learns which.
var ErrChain = &Error{
	Code: SecurityPolicy, Detail: "cred_chain", Text: "the exchange names a chain of credentials that is of no use here now: " +
		"it is not known here, has expired, or is not for this identity",
}

// ErrRevoked and ErrExpired are ErrChain for the identity that has presented
// the chain.
var (
	ErrRevoked = &Error{Code: SecurityPolicy, Detail: "cred_chain", Text: "the exchange names a chain of credentials that is of no use here now: it was revoked"}
	ErrExpired = &Error{Code: SecurityPolicy, Detail: "cred_chain", Text: "the exchange names a chain of credentials that is of no use here now: it has expired"}
)

// WithDelegation returns ctx with the delegation under which something is done in
// it.
func WithDelegation(ctx context.Context, d *Delegation) context.Context {
	c := carriedBy(ctx)
	c.delegation = d
	return c.in(ctx)
}

// DelegationOf returns the delegation that ctx carries, nil if it carries none.
// Contexts given to handlers carry that of their exchange: it held when the
// exchange began.
func DelegationOf(ctx context.Context) *Delegation { return carriedBy(ctx).delegation }

// WithoutDelegation returns ctx in which Delegated refuses with err a message that
// names a chain.
func WithoutDelegation(ctx context.Context, err error) context.Context {
	c := carriedBy(ctx)
	c.refusal = err
	return c.in(ctx)
}

// Delegated returns the delegation of a message, nil if it names no chain. A
// message that names one without having its delegation in ctx is refused with
// ErrChain, or what ctx says: nothing is done without the credentials that it was to be done with.
func Delegated(ctx context.Context, ext e1.Extensions) (*Delegation, error) {
	id, named := ext.Lookup(ExtChain)
	if !named {
		return nil, nil
	}
	c := carriedBy(ctx)
	switch {
	case c.delegation != nil && c.delegation.ChainID == string(id):
		return c.delegation, nil
	case c.refusal != nil:
		return nil, c.refusal
	}
	return nil, ErrChain
}

// WithChain returns ctx with the chain_id under which calls of peers are made in
// it: they go out with extension 50. The chain has to be presented before, on the
// same lane.
func WithChain(ctx context.Context, chainID []byte) context.Context {
	c := carriedBy(ctx)
	c.chain = string(chainID)
	return c.in(ctx)
}

// ChainOf returns the chain_id that WithChain has set, empty if none.
func ChainOf(ctx context.Context) []byte { return []byte(carriedBy(ctx).chain) }

// FormatDelegation returns a delegation as one line of printable ASCII, for the
// headers and the environment of programs: name=value with ", " between them, the
// values percent-encoded. expires is in unix seconds. Names of scopes have a plus
// between them. It has 16 KiB at most.
func FormatDelegation(d *Delegation) string {
	return "type=" + url.QueryEscape(d.Type) + ", issuer=" + url.QueryEscape(d.Issuer) + ", subject=" + url.QueryEscape(d.Subject) +
		", scope=" + url.QueryEscape(strings.Join(d.Scopes, " ")) + ", owner=" + url.QueryEscape(d.Owner) +
		", expires=" + strconv.FormatInt(d.Expires.Unix(), 10) + ", depth=" + strconv.Itoa(d.Depth)
}

// AppendChain appends extension 50 for the chain that ctx names, if it names one.
func AppendChain(ctx context.Context, ext e1.Extensions) e1.Extensions {
	if id := ChainOf(ctx); len(id) > 0 {
		return e1.AppendExtension(ext, ExtChain, id)
	}
	return ext
}
