package client

import "strings"

// Author is the endpoint that has refused something. The zero value is one that does not
// say who it is, or no endpoint at all: the failure of a server or a method.
type Author struct {
	Endpoint string `json:"endpoint,omitempty"` // its identity; that of another than the peer is what it says of itself
	Partner  string `json:"partner,omitempty"`  // of the peer, through which it was reached; empty: the peer itself

	behind bool // it may be another one than the partner
}

// authorOf returns who has refused what a peer was asked of a name, such as
// partner/server.
func authorOf(peer, endpoint, name string) Author {
	a := Author{Endpoint: endpoint}
	if partner, rest, ok := strings.Cut(name, "/"); ok && endpoint != "" && endpoint != peer {
		a.Partner, a.behind = partner, strings.Contains(rest, "/")
	}
	return a
}

// String says by whom something was refused, such as "refused by partner acme
// (spiffe://acme.example/swpd)"; nothing of an endpoint that does not say who it is.
func (a Author) String() string {
	switch {
	case a.Endpoint == "":
		return ""
	case a.Partner == "":
		return "refused by " + a.Endpoint
	case a.behind:
		return "refused by " + a.Endpoint + ", reached through partner " + a.Partner
	}
	return "refused by partner " + a.Partner + " (" + a.Endpoint + ")"
}
