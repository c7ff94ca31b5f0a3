package swpd

import "strings"

// Route is how programs of two organisations reach each other with SWP: over a link from
// one swpd to another, or both at the same swpd.
type Route struct {
	Near, Far string // addresses of the swpd of the one program and of the other

	// Partner is the name of the far swpd at the near one; empty if they are the same.
	Partner string
}

// String is the route as one address, for ParseRoute.
func (r Route) String() string {
	if r.Partner == "" {
		return r.Near
	}
	return strings.Join([]string{r.Near, r.Partner, r.Far}, "/")
}

// ParseRoute reads a route. The address of one swpd is the route to it alone.
func ParseRoute(addr string) Route {
	near, rest, linked := strings.Cut(addr, "/")
	if !linked {
		return Route{Near: near, Far: near}
	}
	partner, far, _ := strings.Cut(rest, "/")
	return Route{near, far, partner}
}

// Name is the name at the near swpd of what is at the far one.
func (r Route) Name(name string) string {
	if r.Partner == "" {
		return name
	}
	return r.Partner + "/" + name
}

// Endpoint is the address of the far swpd as a program at the near one has it.
func (r Route) Endpoint() string {
	if r.Partner == "" {
		return r.Near
	}
	return r.Near + "/" + r.Partner
}
