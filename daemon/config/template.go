package config

import (
	_ "embed"
	"fmt"
	"net"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/slimwire/swp/transport"
)

//go:embed template.yaml
var template []byte

//go:embed short.yaml
var short []byte

// New has the values of a new configuration.
type New struct {
	Identity string    // such as spiffe://example.org/edge; its trust domain may do everything
	Listen   []Address // at least one
	Admin    string    // empty: the result of AdminBeside
	Data     string    // directory of the stored state; empty: data beside the configuration
	Full     bool      // all keys, the optional ones as comments
}

// Template returns the configuration that swpd init writes.
func Template(n New) []byte {
	text := short
	if n.Full {
		text = template
	}
	if n.Admin == "" {
		n.Admin = AdminBeside(n.Listen)
	}
	if n.Data == "" {
		n.Data = "data"
	}
	var listeners strings.Builder
	for _, a := range n.Listen {
		fmt.Fprintf(&listeners, "  - address: %s\n", a)
	}
	return []byte(strings.NewReplacer(
		"TRUST_DOMAIN", trustDomain(n.Identity), "LISTENERS", strings.TrimSuffix(listeners.String(), "\n"), "ADMIN", n.Admin,
		"DATA", scalar(n.Data),
	).Replace(string(text)))
}

// scalar is a string as YAML, in quotes where it needs them.
func scalar(s string) string {
	octets, err := yaml.Marshal(s)
	if err != nil {
		panic("config: " + err.Error()) // a string can always be written
	}
	return strings.TrimSpace(string(octets))
}

// ParseListen reads host:port, for TLS and QUIC, or one address with its scheme.
func ParseListen(s string) ([]Address, error) {
	schemes := []string{"swp+tls://", "swp+quic://"}
	if strings.Contains(s, "://") {
		schemes = []string{""}
	} else if _, _, err := net.SplitHostPort(s); err != nil {
		return nil, fmt.Errorf("%q, want host:port such as 127.0.0.1:7877, or an address such as swp+tls://127.0.0.1:7877", s)
	}
	var list []Address
	for _, scheme := range schemes {
		a, err := transport.ParseAddr(scheme + s)
		if err != nil {
			return nil, err
		}
		list = append(list, Address{a})
	}
	return list, nil
}

// AdminBeside returns the admin address of an endpoint that listens on addresses. It is
// on loopback, three ports above the first address, so that endpoints on one machine
// have different ones.
func AdminBeside(listen []Address) string {
	port := int(listen[0].Port)
	if port > 0 {
		port = (port + 3) % (1 << 16)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
