// Package cred is the CRED profile: credentials that a peer presents, and the
// delegations that it makes with them.
//
//	PRESENT   no answer, or ERR
//	DELEGATE  no answer, or ERR
//	REVOKE    no answer
//
// New builds a Service. Success has no answer; a peer that needs one calls swp.sync
// on the same stream. All three messages take effect when they are read, so that
// later messages on the stream find the chain. An exchange names a chain in
// extension 50. Attach puts the effective delegation of that chain into the context
// of the exchange, and handlers read it with profiles.DelegationOf. Show, Extend and
// End are the sending side. Service.Forward sends a chain to the next hop.
//
// # Credentials
//
//	jwt     a signed token: issuer, signature, audience, exp and nbf are checked
//	mtls    the SHA-256 of the leaf certificate of the channel
//	opaque  octets whose SHA-256 is listed here
//
// The delegations of a jwt chain are tokens. The subject of one token issues the
// next one, for this endpoint. The next token expires no later and has no additional
// scope; a token without scopes has none. The delegations of the other types are
// octets without a meaning here: they have no subject and only limit the time.
//
// A credential without an expiry ends after MaxLifetime, and no delegation lasts
// longer than MaxLifetime. A chain ends with the first of its parts. Each use of a
// chain checks its expiry, the keys that verified it, and its binding to a channel
// again.
//
// # Ownership
//
// A chain belongs to the authenticated identity that presented it. Each identity has
// its own chain_ids, and for other identities the chain does not exist. Only the
// owner extends and revokes it. It may be used
//
//   - by its owner, if the first credential is the owner's: a token with the owner as
//     subject, a token bound to the owner's certificate (cnf x5t#S256), a bearer token
//     of an issuer of such tokens, and any mtls or opaque credential;
//   - by its owner, if a delegation names the owner;
//   - by the subject of the last token, for any owner. If two owners have
//     delegated chains of one chain_id to the same subject, the subject can use
//     neither: owners choose long random ids.
//
// A revoked chain stays revoked at least until its first credential expires, also
// after a restart. So do its tokens: its owner cannot present them again. Other owners
// cannot either, and their chains with these tokens end, from the first token on that the
// owner of the revoked chain has issued, is the subject of, or may use. Work under a chain
// watches it, see profiles.Delegation. If its first credential has no expiry the chain stays revoked
// for ever, and counts against the bound of its owner.
//
// Forward notes the recipients of a chain. After its revocation these peers get a REVOKE, at
// once or on the next session to them (Reached), also after a restart.
//
// # Storage
//
// The Service keeps the SHA-256 of a credential and its claims. It keeps the octets
// of tokens only with Keep, for the next hop, until the chain ends or is revoked. An
// opaque credential is a secret between its owner and this endpoint, and is not
// forwarded. No octet of a credential or delegation is in a log, a text or an
// answer.
//
// Specification: SWP profiles §15.
package cred

import (
	"context"
	"fmt"
	"sync"
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

// Bounds of the fields that a peer sends, in octets.
const (
	MaxCredential = 16 << 10
	MaxChainID    = 128
	maxName       = 512  // of an issuer or a subject
	maxScopes     = 1024 // of all scopes of a token
)

// Options configure a Service. The zero value takes mtls credentials.
type Options struct {
	// Store keeps chains. Without a Store, chains and revocations end with the
	// Service.
	Store Store

	// Keep has the Store keep the octets of chains as well, so that Forward can send
	// them.
	Keep bool

	// Sync has Forward wait until the next hop has accepted a chain. Without Sync,
	// Forward does nothing.
	Sync profiles.Sync

	// Tokens verifies credentials of the type jwt. Without Tokens they are refused.
	Tokens Tokens

	// Audience are the names of this endpoint. A token must be issued for one of
	// them. Required with Tokens.
	Audience []string

	// Leeway is the permitted difference between the clock of an issuer and the
	// clock of this endpoint.
	Leeway time.Duration

	// Digests lists credentials of the type opaque. Without Digests they are refused.
	Digests Digests

	// Takes reports whether credentials of the type jwt or opaque are accepted now.
	// It must not wait. Nil accepts jwt with Tokens, and opaque with Digests.
	Takes func(kind string) bool

	// MaxDepth bounds the length of a chain, its first credential included;
	// default 8, which is also the maximum.
	MaxDepth int

	// MaxLifetime bounds the life of a delegation, and of a credential without an
	// expiry; default 24 hours.
	MaxLifetime time.Duration

	// PerIdentity and Chains bound the chains of one identity and of all, revoked
	// ones included; default 256 and 16,384. A chain takes a few hundred octets of
	// memory, and up to 16 KiB with names of the maximum length.
	PerIdentity, Chains int

	// Forward bounds how long a message waits until the next hop has accepted its
	// credentials; default 10 s.
	Forward time.Duration

	// Access is asked for the operation present on a cred_type, and for delegate on
	// the cred_type of the chain. Nil denies nothing.
	Access profiles.Access

	// Now is the wall clock, nil means time.Now. Elapsed is the time since an
	// arbitrary start, on a monotonic clock; nil derives it from Now, and time.Now
	// is monotonic.
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
	if o.Forward == 0 {
		o.Forward = 10 * time.Second
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
	case o.MaxLifetime < 0 || o.Leeway < 0 || o.Forward < 0:
		return fmt.Errorf("cred: lifetime %v, leeway %v and wait of a message %v, want none negative", o.MaxLifetime, o.Leeway, o.Forward)
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
	limits  atomic.Pointer[Options] // the fields that SetLimits changes
	keeping atomic.Bool             // octets of chains may be in the Store: limits.Keep was set
	profile *profiles.Profile
	clock   clock
	table   table

	ctx   context.Context // ends with Close
	close context.CancelFunc
	work  sync.WaitGroup
}

var _ profiles.Chains = (*Service)(nil)

// SetLimits replaces the bounds for later credentials: Audience, Leeway, MaxDepth,
// MaxLifetime, PerIdentity and Chains of o. It does not change existing chains. Keep of o
// also applies to existing chains that are presented again. It fails on options that New
// refuses, and then changes nothing.
func (s *Service) SetLimits(o Options) error {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return err
	}
	s.put(&o)
	return nil
}

func (s *Service) put(o *Options) {
	if o.Keep {
		s.keeping.Store(true)
	}
	s.limits.Store(o)
}

// New returns a Service with the chains of its Store. It fails on an option out of
// range, and if the Store cannot be read: revoked chains would be valid again. The caller of
// Forward or Reached must close it.
func New(ctx context.Context, opts Options) (*Service, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	s := &Service{opts: opts, clock: newClock(opts.Now, opts.Elapsed)}
	s.put(&opts)
	s.ctx, s.close = context.WithCancel(context.Background())
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
		Inert:   true,
		Handler: profiles.HandlerFunc(s.serve),
		Check:   check,
		Refusal: refusals.Refusal,
		Review:  s.review,
	}
	return s, nil
}

// Profile returns the profile that serves peers. It is the same each time.
func (s *Service) Profile() *profiles.Profile { return s.profile }
