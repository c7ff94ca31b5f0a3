// Package claims has the names that are claimed at an endpoint, and decides whether a partner may
// have an identity. An authority vouches only for its own names: for a name in the trust domain of this
// endpoint, or of another partner, only the authorities of that domain do, and for a name that owns data
// here, only those under which the data came.
package claims

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/slimwire/swp/transport"
)

// Registry has the names that are claimed at one endpoint. It must not change while in use.
type Registry struct {
	Self        string              // identity of this endpoint; empty: unknown
	Authorities []*x509.Certificate // the common trust anchors, which vouch for the names of this endpoint
	Partners    []Partner

	// Owns reports whether there is data of an identity here that came under none of these vouchers: those
	// of a Partner. Nil: there is no data.
	Owns func(identity string, vouchers []string) bool
}

// Partner is a partner, or a peer that is to become one.
type Partner struct {
	Name     string
	Identity string

	// Common reports that the common trust anchors vouch for the partner, and no others.
	Common bool

	Authorities []*x509.Certificate // for this partner alone, in force
	Source      string              // of Authorities that change; empty: they are in files

	OwnsData bool // the operator says that data of the identity is the partner's
}

// Check returns why the first of the partners may not have its identity, or nil.
func (r *Registry) Check() error {
	for i := range r.Partners {
		if err := r.Refuse(&r.Partners[i]); err != nil {
			return err
		}
	}
	return nil
}

// Refuse returns why a partner may not have its identity, or nil. It is compared with the partners of
// the Registry that have another name.
func (r *Registry) Refuse(p *Partner) error {
	if p.Identity == r.Self && r.Self != "" {
		return fmt.Errorf("partners.%s.identity: %s is the identity of this endpoint; use that of the partner, as its swpd check prints it%s", p.Name, p.Identity, development(p.Identity))
	}
	if r.ours(p) {
		return nil
	}
	if d := domain(r.Self); d != "" && d == domain(p.Identity) {
		return fmt.Errorf("partners.%s.identity: %s is in the trust domain of this endpoint, %s, and the authority of the partner is not one of trust.ca, which alone vouch for names there: "+
			"the peer that has this name would be locked out, and the partner would have its rights and data; use an identity in the domain of the partner%s", p.Name, p.Identity, d, development(p.Identity))
	}
	d := transport.TrustDomain(p.Identity)
	for i := range r.Partners {
		other := &r.Partners[i]
		if d != "" && other.Name != p.Name && transport.TrustDomain(other.Identity) == d && (r.ours(other) || !same(p, other)) {
			return fmt.Errorf("partners.%s.identity: %s is in the trust domain %s of the partner %s, whose authorities are others; "+
				"a trust domain has one set of authorities: write the same trust, or bundle, for both, or remove one", p.Name, p.Identity, d, other.Name)
		}
	}
	if r.Owns != nil && !p.OwnsData && r.Owns(p.Identity, r.Vouchers(p)) {
		return fmt.Errorf("partners.%s.identity: %s owns data here, and was no partner with these authorities when it came: the partner would get the data of the peer that has this name; "+
			"if it is that peer, set partners.%[1]s.owns_data: true, or use swpd partner accept --owns-data; if not, it needs another identity", p.Name, p.Identity)
	}
	return nil
}

// Foresee returns why no partner with a name may have an identity, or else a condition for the authorities
// of the partner, which are not known yet; empty if any will do.
func (r *Registry) Foresee(name, identity string) (condition string, err error) {
	if identity == r.Self && r.Self != "" {
		return "", r.Refuse(&Partner{Name: name, Identity: identity})
	}
	if d := domain(r.Self); d != "" && d == domain(identity) {
		return fmt.Sprintf("%s is in the trust domain of this endpoint, so the reply is accepted only if the authorities of the partner are of trust.ca", identity), nil
	}
	d := transport.TrustDomain(identity)
	for i := range r.Partners {
		if other := &r.Partners[i]; d != "" && other.Name != name && transport.TrustDomain(other.Identity) == d {
			return fmt.Sprintf("%s is in the trust domain of the partner %s, so the reply is accepted only with the same authorities", identity, other.Name), nil
		}
	}
	if r.Owns != nil && r.Owns(identity, nil) {
		return fmt.Sprintf("%s owns data here, so the reply is accepted only with --owns-data, and the partner gets that data", identity), nil
	}
	return "", nil
}

// Known returns who vouches for the partners with an identity.
func (r *Registry) Known(identity string) (vouchers []string) {
	for i := range r.Partners {
		if r.Partners[i].Identity == identity {
			vouchers = append(vouchers, r.Vouchers(&r.Partners[i])...)
		}
	}
	return vouchers
}

// Vouchers names the authorities of a partner in a form that can be stored and compared: the source of
// its authorities, and the SHA-256 of each.
func (r *Registry) Vouchers(p *Partner) (list []string) {
	authorities := p.Authorities
	if p.Common {
		authorities = r.Authorities
	}
	if p.Source != "" {
		list = append(list, p.Source)
	}
	for _, c := range authorities {
		sum := sha256.Sum256(c.Raw)
		list = append(list, hex.EncodeToString(sum[:]))
	}
	return list
}

// ours reports whether no authority but the common ones vouches for a partner.
func (r *Registry) ours(p *Partner) bool {
	return p.Common || len(p.Authorities) > 0 && within(p.Authorities, r.Authorities)
}

// same reports whether the same authorities vouch for two partners, also after a change of those.
func same(a, b *Partner) bool {
	if a.Common != b.Common || a.Source != b.Source {
		return false
	}
	return a.Source != "" || within(a.Authorities, b.Authorities) && within(b.Authorities, a.Authorities)
}

// within reports whether all of some authorities are among others.
func within(some, others []*x509.Certificate) bool {
	return !slices.ContainsFunc(some, func(c *x509.Certificate) bool { return !slices.ContainsFunc(others, c.Equal) })
}

// domain returns the scheme and the host of an identity, which one organisation assigns names in; empty
// for an identity without a host.
func domain(identity string) string {
	scheme, rest, ok := strings.Cut(identity, "://")
	if !ok {
		return ""
	}
	host, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + host
}

// development is the advice for certificates that all have the same name.
func development(identity string) string {
	if !strings.HasPrefix(identity, "spiffe://localhost/") {
		return ""
	}
	return "; certificates for development are told apart by swpd init --name spiffe://example.org/swpd"
}
