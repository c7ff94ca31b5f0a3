package check

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/slimwire/swp/daemon/claims"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/internal/access"
)

// Claims returns the names that are claimed at the endpoint of a configuration. Without its
// certificate only identity.spiffe_id is known, if it is set.
func Claims(c *config.Config, now time.Time) (*claims.Registry, error) {
	if c.Development() && !devpki.Server(c.IdentityDir()).Exist() {
		return &claims.Registry{Self: devpki.DefaultName}, nil
	}
	cr, err := identity.Read(c, func() time.Time { return now })
	if away := (*identity.NoSVIDError)(nil); errors.As(err, &away) {
		return &claims.Registry{Self: c.Identity.SPIFFEID}, nil
	}
	if err != nil {
		return nil, err
	}
	return cr.Claims(), nil
}

// nameOf returns the identity of the endpoint of a configuration: the one in its certificate, or the one that its
// certificate will have.
func nameOf(c *config.Config) (string, error) {
	if c.Development() && !devpki.Server(c.IdentityDir()).Exist() {
		return devpki.DefaultName, nil
	}
	name, err := identity.NameOf(c)
	if away := (*identity.NoSVIDError)(nil); errors.As(err, &away) {
		return cmp.Or(c.Identity.SPIFFEID, "unknown"), nil
	}
	return name, err
}

// Named returns the keys of access rules that name an identity, in full or by a pattern that is not
// for everybody. Rules of partners are not among them.
func Named(c *config.Config, identity string) (keys []string) {
	is := func(patterns config.List) bool {
		for _, text := range patterns {
			if match, err := access.Matcher(text); err == nil && text != "**" && match(identity) {
				return true
			}
		}
		return false
	}
	for i, rule := range c.Access.Rules {
		if rule.Key == "" && is(rule.Identity) {
			keys = append(keys, c.Access.RuleKey(i))
		}
	}
	for i, rule := range c.Access.Agents {
		if is(rule.Identity) {
			keys = append(keys, fmt.Sprintf("access.agents[%d]", i))
		}
	}
	return keys
}
