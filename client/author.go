package client

import (
	"slices"
	"strings"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// Author is the endpoint that has refused something. The zero value is one that does not
// say who it is, or no endpoint at all: the failure of a server or a method.
type Author struct {
	Endpoint string `json:"endpoint,omitempty"` // its identity; that of another than the peer is what it says of itself
	Partner  string `json:"partner,omitempty"`  // of the peer, through which it was reached; empty: the peer itself

	behind bool // it may be another one than the partner
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

// String says who it is, such as "partner acme (spiffe://acme.example/swpd)"; nothing of
// an endpoint that does not say who it is.
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

// Said says which endpoint refused or, where code is not a refusal (an unknown name, say),
// which one answered; it is empty where String is.
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

// refusals are the codes by which an endpoint refuses what it could do.
var refusals = []string{profiles.SecurityPolicy.String(), profiles.RateLimitExceeded.String(), rpc.CodeUnauthorized}
