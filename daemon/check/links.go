package check

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/fronts"
	"github.com/slimwire/swp/daemon/internal/guard"
	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/internal/access"
	"github.com/slimwire/swp/internal/bridge/gate"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
)

// PlanPartner is a partner of a Plan.
type PlanPartner struct {
	Name      string   `json:"name"`
	Identity  string   `json:"identity"`
	Addresses []string `json:"addresses"`        // empty: the partner dials
	Trust     []string `json:"trust"`            // PEM files; empty: trust.ca, or Bundle
	Bundle    string   `json:"bundle,omitempty"` // the source of a trust bundle, and its URL
	Allowed   []string `json:"allowed"`          // patterns of the identities that may use something of the partner
	Serves    bool     `json:"serves"`           // a rule gives the partner a right here

	// The bounds on deliveries that wait for it: octets, and number.
	Queue    config.Size `json:"queue_bytes"`
	Messages int         `json:"queue_messages"`

	File       string `json:"file,omitempty"` // in partners.d; empty: the partner is in the main file
	State      string `json:"state"`          // active, suspended or revoked
	ValidUntil string `json:"valid_until,omitempty"`
	ReviewBy   string `json:"review_by,omitempty"`
}

// PlanHTTP is the listener for HTTP clients in a Plan.
type PlanHTTP struct {
	Address string       `json:"address"` // config.HTTPOff if there is none
	TLS     bool         `json:"tls"`
	CA      []string     `json:"client_ca"` // PEM files; empty: no client certificate is requested
	Callers []PlanCaller `json:"callers"`
}

// PlanCaller is an HTTP caller in a Plan.
type PlanCaller struct {
	Identity     string `json:"identity"`
	Anonymous    bool   `json:"anonymous"` // callers without a token and a certificate
	Tokens       int    `json:"tokens"`    // how many
	Certificates int    `json:"certificates"`
}

// reachable returns the profiles in which names can belong to a partner.
func reachable() (names []string) {
	for _, p := range all.Tables() {
		if p.Behind != profiles.NotBehind {
			names = append(names, p.Name)
		}
	}
	return names
}

func (p *Plan) partners(c *config.Config, policy *access.Policy, names StoredNames) {
	p.Warnings = append(p.Warnings, c.Partners.Terms(time.Now())...)
	stored := p.stored(c, names)
	for _, name := range slices.Sorted(maps.Keys(c.Partners)) {
		conf := c.Partners[name]
		one := PlanPartner{
			Name: name, Identity: conf.Identity, Addresses: []string{}, Trust: append([]string{}, conf.Trust...), Bundle: strings.TrimSpace(conf.Bundle.Source + " " + conf.Bundle.URL),
			Allowed: whoMay(&c.Access, func(may *access.Policy) bool {
				return slices.ContainsFunc(reachable(), func(profile string) bool { return may.Reaches(anyone, profile, name) })
			}),
			Serves: len(policy.For(conf.Identity).Rules) > 0,
			Queue:  conf.Queue.Size, Messages: conf.Queue.Messages,
			File: c.PartnerFiles[name], State: conf.State, ValidUntil: conf.ValidUntil.String(), ReviewBy: conf.ReviewBy.String(),
		}
		for _, a := range conf.Addresses {
			one.Addresses = append(one.Addresses, a.String())
		}
		if policy.Denied(conf.Identity) && conf.Barred(name, time.Now()) == "" {
			p.Warnings = append(p.Warnings, fmt.Sprintf("partners.%s: access.deny matches %s, so there will be no link", name, conf.Identity))
		}
		captured := c.Named(name + "/")
		maps.Copy(captured, stored[name+"/"])
		for _, one := range config.CapturedBy(name, captured) {
			p.Warnings = append(p.Warnings, one.String())
		}
		p.Partners = append(p.Partners, one)
	}
}

// transit warns of rules by which a partner may use another one through this endpoint,
// unless their names begin with that partner.
func (p *Plan) transit(c *config.Config) {
	for i, rule := range c.Access.Rules {
		alone := func(rule config.AccessRule) *access.Policy {
			rule.For = nil // who may assert a caller may transit, too
			policy, err := guard.NewPolicy(&config.Access{Rules: []config.AccessRule{rule}, Named: c.Access.Named}, time.Now())
			if err != nil {
				return nil // reported by Read
			}
			return policy
		}
		var ways []string
		for _, to := range slices.Sorted(maps.Keys(c.Partners)) {
			narrow := rule
			narrow.Name = slices.DeleteFunc(slices.Clone(rule.Name), func(pattern string) bool { return strings.HasPrefix(pattern, to+"/") })
			if len(rule.Name) > 0 && len(narrow.Name) == 0 {
				continue // the names say that it is meant
			}
			policy := alone(narrow)
			for _, from := range slices.Sorted(maps.Keys(c.Partners)) {
				if from != to && policy != nil && slices.ContainsFunc(reachable(), func(profile string) bool { return policy.Reaches(c.Partners[from].Identity, profile, to) }) {
					ways = append(ways, from+" to "+to)
				}
			}
		}
		if len(ways) > 0 {
			p.Warnings = append(p.Warnings, fmt.Sprintf("%s.name: partners may use each other through this endpoint (%s), because this matches names of every partner; if that is not meant, write what the rule is for, such as SERVER/*", c.Access.RuleKey(i), some(ways)))
		}
	}
}

// some returns the first of a list, and how many more there are.
func some(list []string) string {
	const most = 3
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// stored returns the stored names that begin with those of partners, by the name and kind.
func (p *Plan) stored(c *config.Config, names StoredNames) map[string]map[string][]string {
	prefixes := make([]string, 0, len(c.Partners))
	for name := range c.Partners {
		prefixes = append(prefixes, name+"/")
	}
	if len(prefixes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	found, err := names(ctx, c, prefixes)
	if err != nil {
		p.Warnings = append(p.Warnings, fmt.Sprintf("data: stored names were not compared with those of partners: %v", err))
	}
	return found
}

// lookTime bounds the search for stored names.
const lookTime = 10 * time.Second

func (p *Plan) http(c *config.Config, policy *access.Policy) error {
	if m := &c.Metrics; m.Address != config.AdminOff {
		warnings, err := fronts.CheckTLS("metrics.tls", &m.TLS, identity.KeptListsOf(c, time.Now), time.Now())
		if err != nil {
			return err
		}
		p.Warnings = append(p.Warnings, warnings...)
	}
	h := &c.HTTP
	p.HTTP = PlanHTTP{Address: h.Address, TLS: h.TLS.Cert != "", CA: append([]string{}, h.TLS.CA...), Callers: []PlanCaller{}}
	if h.Address == config.HTTPOff {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(h.Callers)) {
		caller := h.Callers[name]
		p.HTTP.Callers = append(p.HTTP.Callers, PlanCaller{Identity: gate.Prefix + name, Tokens: len(caller.Tokens), Certificates: len(caller.Certificates)})
	}
	if h.Anonymous != "" {
		p.HTTP.Callers = append(p.HTTP.Callers, PlanCaller{Identity: gate.Prefix + h.Anonymous, Anonymous: true})
	}
	for _, caller := range p.HTTP.Callers {
		if g := policy.For(caller.Identity); g.Denied || len(g.Rules) == 0 {
			p.Warnings = append(p.Warnings, fmt.Sprintf("http: %s may do nothing: no access rule is for it", caller.Identity))
		}
	}
	if !p.HTTP.TLS {
		return nil
	}
	warnings, err := fronts.CheckTLS("http.tls", &h.TLS, identity.KeptListsOf(c, time.Now), time.Now())
	p.Warnings = append(p.Warnings, warnings...)
	return err
}
