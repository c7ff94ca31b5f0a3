//go:build unix

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/profiles/all"
)

// Organisation is the files of an endpoint, and how others reach it.
type Organisation struct {
	Name    string
	Dir     string // with its configuration and certificates
	Address string // host:port, of TCP and UDP
}

// Partner is an Organisation that another one works with.
type Partner struct {
	*Organisation
	Scheme string // of the address to dial, swp+tls or swp+quic; empty: the partner dials
}

// Identity returns the identity of the endpoint.
func (o *Organisation) Identity() string { return "spiffe://" + o.Name + ".example/swpd" }

// Configuration returns the path of the configuration.
func (o *Organisation) Configuration() string { return filepath.Join(o.Dir, "swpd.yaml") }

func (o *Organisation) pki() string { return filepath.Join(o.Dir, "pki") }

// Authenticate makes an authority in the directory, and certificates for the endpoint and a client.
func (o *Organisation) Authenticate() error {
	return devpki.Create(o.pki(), devpki.Options{Name: o.Identity()})
}

// Configure writes the configuration. Partners may do everything here; they are authenticated before.
func (o *Organisation) Configure(extra string, partners ...Partner) error {
	var rules, list strings.Builder
	for _, p := range partners {
		fmt.Fprintf(&rules, "    - {identity: %q}\n", p.Identity())
		addresses := ""
		if p.Scheme != "" {
			addresses = fmt.Sprintf(", addresses: [%q]", p.Scheme+"://"+p.Address)
		}
		fmt.Fprintf(&list, "  %s: {identity: %q, trust: [%q]%s}\n", p.Name, p.Identity(), devpki.Server(p.pki()).CA, addresses)
	}
	own := "spiffe://" + o.Name + ".example/**"
	conf := fmt.Sprintf(`identity: {cert: pki/server.crt, key: pki/server.key}
trust: {ca: [pki/ca.crt]}
listeners: [{address: "swp+tls://%[1]s"}, {address: "swp+quic://%[1]s"}]
admin: 127.0.0.1:0
data: data
access:
  rules:
    - {identity: %[2]q}
%[3]s  agents: [{identity: %[2]q, agent_ids: "**"}]
partners:
%[4]s%[5]s`, o.Address, own, rules.String(), list.String(), extra)
	return os.WriteFile(o.Configuration(), []byte(conf), 0o600)
}

// Dial returns how clients of the organisation reach an address.
func (o *Organisation) Dial(scheme, address string) client.Dialer {
	return func(ctx context.Context) (*client.Client, error) { return o.DialWith(ctx, scheme, address, nil) }
}

// DialWith connects to an address with profiles that serve the connection; nil: the profiles of a client.
func (o *Organisation) DialWith(ctx context.Context, scheme, address string, set *all.Set) (*client.Client, error) {
	files := devpki.Client(o.pki())
	return client.Dial(ctx, scheme+"://"+address, client.Options{
		Identity: client.Identity{Cert: files.Cert, Key: files.Key, CA: files.CA}, Profiles: set,
	})
}
