package serve

import "github.com/slimwire/swp/sdl/trust"

// Compat makes a Server as permissive as the public implementation of A2A-SDL, for
// comparison with it. Each switch disables a safeguard. Servers use the zero value.
type Compat struct {
	// UnauthenticatedTrust answers trustsync.v1 of unauthenticated senders.
	UnauthenticatedTrust bool

	// UnauthenticatedSession opens sessions for unauthenticated senders.
	UnauthenticatedSession bool

	// RegistrySignature accepts a signature over the registry alone for a proposal. Such a
	// signature can be replayed with another id and another merge.
	RegistrySignature bool

	// AssertedScopes trusts the scopes and the agent_id that a caller claims.
	AssertedScopes bool

	// NoToolPolicyAllows allows every tool call if there is no tool policy.
	NoToolPolicyAllows bool

	// AllContentTypes lists all content types and tools in negotiation.v1, for every sender.
	AllContentTypes bool

	// AcksUnopened answers op ack of session.v1 as bound, whether a session is open or not.
	AcksUnopened bool

	// ClearAnswers answers an encrypted request in clear where the sender has no key, also
	// under a policy of mode enc+sig.
	ClearAnswers bool
}

// Reference returns the Compat with every switch set.
func Reference() Compat {
	return Compat{
		UnauthenticatedTrust:   true,
		UnauthenticatedSession: true,
		RegistrySignature:      true,
		AssertedScopes:         true,
		NoToolPolicyAllows:     true,
		AllContentTypes:        true,
		AcksUnopened:           true,
		ClearAnswers:           true,
	}
}

// opened returns the options with copies of the policies, relaxed as in Compat.
func (o Options) opened() Options {
	if o.ToolPolicy != nil && o.Compat.AssertedScopes {
		open := *o.ToolPolicy
		open.AssertedScopes = true
		o.ToolPolicy = &open
	}
	if single, ok := o.Proposals.(*trust.SingleKey); ok && o.Compat.RegistrySignature {
		o.Proposals = &trust.SingleKey{Key: single.Key, RegistryOnly: true}
	}
	return o
}
