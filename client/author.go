package client

import (
	"slices"
	"strings"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// Author is the endpoint that has refused something. The zero value is an endpoint that has
// not given its identity, or no endpoint: the failure of a server or a method.
type Author struct {
	Endpoint string `json:"endpoint,omitempty"` // its identity; if it is not the peer, the identity is only claimed
	Partner  string `json:"partner,omitempty"`  // name of the peer's partner on the way to it; empty: the peer itself

	behind bool // it may be an endpoint behind that partner
}

// author returns which endpoint has refused a request of this client about a name, as
// authorOf does. An empty name is not known.
func (c *Client) author(endpoint, name string) Author {
	if c.opts.Partner && c.Target != "" {
		name = c.Target + "/" + name
	}
	return authorOf(c.peer.Peer().Identity, endpoint, name)
}

// authorOf returns which endpoint has refused a request about a name, such as
// partner/server.
func authorOf(peer, endpoint, name string) Author {
	a := Author{Endpoint: endpoint}
	if partner, rest, ok := strings.Cut(name, "/"); ok && endpoint != "" && endpoint != peer {
		a.Partner, a.behind = partner, strings.Contains(rest, "/")
	}
	return a
}

// String describes the endpoint, such as "partner acme (spiffe://acme.example/swpd)". It is
// empty for an endpoint that has not given its identity.
func (a Author) String() string {
	switch {
	case a.Endpoint == "":
		return ""
	case a.Partner == "":
		return a.Endpoint
	case a.behind:
		return a.Endpoint + ", reached through partner " + a.Partner
	}
	return "partner " + a.Partner + " (" + a.Endpoint + ")"
}

// Said returns a clause that says which endpoint refused, or, if code is no refusal (an
// unknown name, for example), which one answered. It is empty if String is.
func (a Author) Said(code string) string {
	by := a.String()
	switch {
	case by == "":
		return ""
	case slices.Contains(refusals, code):
		return "refused by " + by
	}
	return "said by " + by
}

// refusals are the codes of refusals by policy.
var refusals = []string{
	profiles.SecurityPolicy.String(), profiles.SecurityPolicy.Alias(), rpc.CodeUnauthorized,
}
