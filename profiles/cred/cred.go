// Package cred is the CRED profile: credentials that a peer shows, and what it has
// delegated with them.
//
//	PRESENT   no answer, or ERR
//	DELEGATE  no answer, or ERR
//	REVOKE    no answer
//
// New builds a Service. Silence is success: whoever wants to know calls swp.sync
// on the same stream. All three take effect when they are read, so that what
// follows on the stream finds the chain. Attach puts the effective delegation of
// an exchange, that of the chain which it names in extension 50, where handlers
// find it: profiles.DelegationOf. Show, Extend and End are the sending side,
// Service.Forward tells a chain to the next hop.
//
// # Credentials
//
//	jwt     a signed token: issuer, signature, audience, exp and nbf are checked
//	mtls    the SHA-256 of the leaf certificate of the channel it comes on
//	opaque  octets whose SHA-256 is listed here
//
// A jwt chain goes on with tokens: each is issued by the subject of the one before
// it, for this endpoint, expires no later and has no scope that the one before it
// has not; a token without scopes has none. The delegations of the other types are
// octets without a meaning here: they name nobody and only limit the time.
//
// A credential without an end of its own ends after MaxLifetime, and no delegation
// lasts longer than that. A chain ends with the first of its parts. Expiry, the
// keys that vouched for it, and the channel to which it is bound are looked at
// again each time it is used.
//
// # Whose a chain is
//
// A chain belongs to the authenticated identity that presented it: chain_ids of
// different identities never meet, and for everyone else it is not there. Only its
// owner adds to it and revokes it. It may be used
//
//   - by its owner, if the first credential is the owner's own: a token of which it
//     is the subject, one bound to its certificate (cnf x5t#S256) or one of an
//     issuer whose tokens belong to whoever holds them; mtls and opaque always are;
//   - by its owner, if a delegation names it;
//   - by the subject of the last token, whoever presented it. Where two owners have
//     delegated chains of one chain_id to the same subject, it can use neither:
//     owners choose long random ids.
//
// A chain that was revoked stays so at least as long as its first credential could
// be good, also after a restart; one whose first credential has no end stays so for
// good, and counts against the bound of its owner.
//
// # What is kept
//
// Of a credential its SHA-256 is kept and what it says. The octets themselves are
// kept only of tokens, and only if Keep says that chains are to be told to the next
// hop: until the chain ends or is revoked. An opaque credential is a secret of its
// owner and this endpoint, and stays here. No octet of a credential or delegation
// is in a log, a text or an answer.
//
// Specification: SWP profiles §15.
package cred

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
)

// ProfileID is the profile_id of CRED, Name its short name.
const (
	ProfileID = 15
	Name      = "cred"
)

// The types of credentials.
const (
	JWT    = "jwt"
	MTLS   = "mtls"
	Opaque = "opaque"
)

// Bounds of what a peer sends, in octets.
const (
	MaxCredential = 16 << 10
	MaxChainID    = 128
	maxName       = 512  // of an issuer or a subject
	maxScopes     = 1024 // of all scopes of a token
)

// Options configure a Service. The zero value takes mtls credentials.
type Options struct {
	// Store keeps chains. Nil means that they, and what was revoked, are forgotten
	// with the Service.
	Store Store

	// Keep has the octets of chains kept in the Store as well, so that Forward can
	// tell them to others.
	Keep bool

	// Sync has Forward wait until the next hop has taken a chain. Nil: Forward does
	// nothing.
	Sync Sync

	// Tokens verifies credentials of the type jwt. Nil means that there are none.
	Tokens Tokens

	// Audience are the names of this endpoint, one of which a token has to be for.
	// Required with Tokens.
	Audience []string

	// Leeway is how much the clocks of issuers may differ from that of this
	// endpoint.
	Leeway time.Duration

	// Digests lists credentials of the type opaque. Nil means that there are none.
	Digests Digests

	// Takes reports whether credentials of the type jwt or opaque are taken now. It must
	// not wait. Nil means that they are where there are Tokens, or Digests.
	Takes func(kind string) bool

	// MaxDepth bounds the length of a chain, its first credential included;
	// default 8, which is also the most.
	MaxDepth int

	// MaxLifetime bounds the life of a delegation, and that of credentials without
	// an end of their own; default 24 hours.
	MaxLifetime time.Duration

	// PerIdentity and Chains bound the chains of one identity and of all, revoked
	// ones included; default 256 and 16,384. A chain takes a few hundred octets of
	// memory, and up to 16 KiB with names as long as they may be.
	PerIdentity, Chains int

	// Access is asked for the operation present on a cred_type, and for delegate on
	// that of the chain. Nil denies nothing.
	Access profiles.Access

	// Now is the wall clock, nil means time.Now. Elapsed is how much time has passed,
	// on a clock that no one sets; nil means that it follows Now, which with time.Now
	// is such a clock.
	Now     func() time.Time
	Elapsed func() time.Duration
}

func (o Options) withDefaults() Options {
	if o.Access == nil {
		o.Access = profiles.Everyone
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Takes == nil {
		taken := map[string]bool{JWT: o.Tokens != nil, Opaque: o.Digests != nil}
		o.Takes = func(kind string) bool { return taken[kind] }
	}
	if o.MaxDepth == 0 {
		o.MaxDepth = maxDepth
	}
	if o.MaxLifetime == 0 {
		o.MaxLifetime = 24 * time.Hour
	}
	if o.PerIdentity == 0 {
		o.PerIdentity = 256
	}
	if o.Chains == 0 {
		o.Chains = 16384
	}
	return o
}

// maxDepth is the longest chain of the specification.
const maxDepth = 8

func (o *Options) validate() error {
	switch {
	case o.MaxDepth < 1 || o.MaxDepth > maxDepth:
		return fmt.Errorf("cred: depth %d, want 1 to %d", o.MaxDepth, maxDepth)
	case o.MaxLifetime < 0 || o.Leeway < 0:
		return fmt.Errorf("cred: lifetime %v and leeway %v, want neither negative", o.MaxLifetime, o.Leeway)
	case o.PerIdentity < 0 || o.Chains < 0:
		return fmt.Errorf("cred: %d chains of an identity, %d of all, want neither negative", o.PerIdentity, o.Chains)
	case o.Tokens != nil && len(o.Audience) == 0:
		return fmt.Errorf("cred: tokens without an audience, want the names of this endpoint")
	}
	return nil
}

// Service is the chains of one endpoint. It is safe for concurrent use.
type Service struct {
	opts    Options
	limits  atomic.Pointer[Options] // what SetLimits changes of them
	profile *profiles.Profile
	clock   clock
	table   table
}

var _ profiles.Chains = (*Service)(nil)

// SetLimits has other bounds hold for credentials that come from now on: Audience, Leeway,
// MaxDepth, MaxLifetime, PerIdentity and Chains of o. Chains that are kept stay as they
// are. It fails on what New would not take, and then changes nothing.
func (s *Service) SetLimits(o Options) error {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return err
	}
	s.limits.Store(&o)
	return nil
}

// New returns a Service with the chains of its Store. It fails on an option that
// is out of range, and if the Store cannot be read: what was revoked would be good
// again.
func New(ctx context.Context, opts Options) (*Service, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	s := &Service{opts: opts, clock: newClock(opts.Now, opts.Elapsed)}
	s.limits.Store(&opts)
	s.table.init()
	if opts.Store != nil {
		if err := s.load(ctx); err != nil {
			return nil, err
		}
	}
	s.profile = &profiles.Profile{
		ID:   ProfileID,
		Name: Name,
		Types: []profiles.Type{
			{ID: TypePresent, Name: "CRED_PRESENT", Role: profiles.Initiating},
			{ID: TypeDelegate, Name: "CRED_DELEGATE", Role: profiles.Initiating},
			{ID: TypeRevoke, Name: "CRED_REVOKE", Role: profiles.Initiating},
			{ID: TypeErr, Name: "CRED_ERR", Role: profiles.Answer | profiles.Terminal},
		},
		Operations: []profiles.Operation{
			{Name: "present", On: "cred_type, of the first credential"},
			{Name: "delegate", On: "cred_type, of the first credential"},
			{Name: "revoke", Free: true},
		},
		Show:    p1.Show(Messages),
		Handler: profiles.HandlerFunc(s.serve),
		Check:   check,
		Refusal: refusals.Refusal,
	}
	return s, nil
}

// Profile returns the profile that serves peers. It is the same each time.
func (s *Service) Profile() *profiles.Profile { return s.profile }
