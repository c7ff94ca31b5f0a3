package serve

import "github.com/slimwire/swp/sdl/trust"

// Compat makes a Server as open as the public implementation of A2A-SDL, for those
// who check themselves against what that one does. Each switch gives up a safeguard,
// so the zero value is what servers use.
type Compat struct {
	// UnauthenticatedTrust answers trustsync.v1 of senders that nothing vouches for.
	UnauthenticatedTrust bool

	// UnauthenticatedSession opens sessions for senders that nothing vouches for.
	UnauthenticatedSession bool

	// RegistrySignature takes a signature over the registry alone for a proposal:
	// one that can be sent again under another id, and with another merge.
	RegistrySignature bool

	// AssertedScopes takes the scopes that a caller says it has for granted, and its
	// agent_id for its own.
	AssertedScopes bool

	// NoToolPolicyAllows lets everyone call every tool where there is no tool policy.
	NoToolPolicyAllows bool
}

// Reference returns the Compat with every switch set.
func Reference() Compat {
	return Compat{
		UnauthenticatedTrust:   true,
		UnauthenticatedSession: true,
		RegistrySignature:      true,
		AssertedScopes:         true,
		NoToolPolicyAllows:     true,
	}
}

// opened returns the options with copies of the policies, relaxed as Compat says.
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
