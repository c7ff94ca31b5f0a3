package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/internal/bridge/gate"
	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
)

// Access is the access rules. An operation that no rule allows is denied.
type Access struct {
	Rules  []AccessRule `yaml:"rules"`
	Agents []AgentRule  `yaml:"agents"`
	Deny   Denials      `yaml:"deny"` // who may do nothing

	Named List `yaml:"-"` // identities of partners to which rules with wildcards do not apply

	// Asserts are patterns of the peers whose callers have the quotas of one identity each; nil: those
	// of Partners. Asserting are those in force.
	Asserts   List `yaml:"asserts"`
	Asserting List `yaml:"-"`
}

// AccessRule allows what all of its patterns match. A list that is empty
// matches everything; in a pattern * stands for any characters but "/", ** for
// any.
type AccessRule struct {
	Identity  List `yaml:"identity"` // required
	For       List `yaml:"for"`      // callers that the peer asserts
	Profile   List `yaml:"profile"`
	Operation List `yaml:"operation"`
	Name      List `yaml:"name"`

	Key string `yaml:"-"` // of a rule that belongs to a partner, such as partners.acme.allow[0]
}

// Denials is a list of denials. A list of one may be written as its element.
type Denials []Denial

// Denial denies everything to the identities that its patterns match. One without For may
// be written as a string.
type Denial struct {
	Identity List `yaml:"identity"` // required
	For      List `yaml:"for"`      // callers that the peer asserts

	// Of the denial of a partner: the key that denies, such as partners.acme.state, the reason,
	// the cause that the partner is told, and when it begins.
	Key   string       `yaml:"-"`
	Why   string       `yaml:"-"`
	Cause causes.Cause `yaml:"-"`
	From  time.Time    `yaml:"-"`
}

// RuleKey returns the key of element i of Rules.
func (a *Access) RuleKey(i int) string {
	return cmp.Or(a.Rules[i].Key, fmt.Sprintf("access.rules[%d]", i))
}

// DenyKey returns the key of element i of Deny.
func (a *Access) DenyKey(i int) string {
	return cmp.Or(a.Deny[i].Key, fmt.Sprintf("access.deny[%d]", i))
}

// DeniedAt returns the elements of Deny that are in force at a time: the first ones.
func (a *Access) DeniedAt(now time.Time) Denials {
	n := slices.IndexFunc(a.Deny, func(d Denial) bool { return d.From.After(now) })
	if n < 0 {
		return a.Deny
	}
	return a.Deny[:n]
}

// AgentRule says which agent_ids an identity may use.
type AgentRule struct {
	Identity List `yaml:"identity"`
	AgentIDs List `yaml:"agent_ids"`
}

// List is a list of strings. A list of one may be written as a string.
type List []string

// LoopbackIdentity is the identity of a peer on a plaintext listener.
const LoopbackIdentity = "loopback"

// Everything returns the access under which the identities that match one of
// the patterns may do everything, as any agent.
func Everything(identities ...string) Access {
	return Access{
		Rules:  []AccessRule{{Identity: identities}},
		Agents: []AgentRule{{Identity: identities, AgentIDs: List{"**"}}},
	}
}

// builtInAccess is the access without a configuration file: everything for the
// development identities, and for this machine if there is a plaintext listener.
func (c *Config) builtInAccess() Access {
	who := []string{trustDomain(devpki.DefaultName) + "/**"}
	for _, l := range c.Listeners {
		if l.Address.Transport == "tcp" {
			return Everything(append(who, LoopbackIdentity)...)
		}
	}
	return Everything(who...)
}

// trustDomain is the common prefix of the identities of a trust domain, without the
// slash.
func trustDomain(identity string) string {
	scheme, rest, _ := strings.Cut(identity, "://")
	domain, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + domain
}

// table returns the profile of a name: a built-in profile, or a profile of the program
// that embeds swpd.
func (c *Config) table(name string) *profiles.Profile {
	for _, list := range [][]*profiles.Profile{all.Tables(), c.Profiles} {
		for _, p := range list {
			if p.Name == name && (p.Open || len(p.Asked()) > 0) {
				return p
			}
		}
	}
	return nil
}

// ruled returns the names of the profiles that rules can name.
func (c *Config) ruled() []string {
	var names []string
	for _, p := range slices.Concat(all.Tables(), c.Profiles) {
		if c.table(p.Name) != nil {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// operationsOf returns the operations of a profile that need a rule.
func operationsOf(p *profiles.Profile) []string {
	var names []string
	for _, o := range p.Asked() {
		names = append(names, o.Name)
	}
	return names
}

func (c *Config) checkAccess(p *problems) {
	for i, rule := range c.Access.Rules {
		key := c.Access.RuleKey(i)
		checkIdentities(p, key+".identity", rule.Identity)
		checkNames(p, key+".for", rule.For)
		checkPatterns(p, key+".name", rule.Name)
		checkPatterns(p, key+".operation", rule.Operation)
		checkPatterns(p, key+".profile", rule.Profile)
		c.checkOperations(p, key, &rule)
	}
	for i, rule := range c.Access.Agents {
		key := fmt.Sprintf("access.agents[%d]", i)
		checkIdentities(p, key+".identity", rule.Identity)
		if len(rule.AgentIDs) == 0 {
			p.add(key+".agent_ids", "missing; list agent_ids, or \"**\" for any")
		}
		checkPatterns(p, key+".agent_ids", rule.AgentIDs)
	}
	if len(c.Access.Asserts) > 0 {
		checkIdentities(p, "access.asserts", c.Access.Asserts)
	}
	for i, denial := range c.Access.Deny {
		key := c.Access.DenyKey(i)
		if len(denial.Identity) == 0 {
			p.add(key+".identity", "missing; name whom to deny, such as spiffe://example.org/**")
		}
		checkNames(p, key+".identity", denial.Identity)
		checkNames(p, key+".for", denial.For)
	}
}

// checkOperations finds operations that no rule can match.
func (c *Config) checkOperations(p *problems, key string, rule *AccessRule) {
	known := make(map[string]bool)
	open := len(rule.Profile) == 0
	for i, name := range rule.Profile {
		table := c.table(name)
		switch {
		case strings.Contains(name, "*"):
			open = true
			continue
		case table == nil:
			p.addItem(key+".profile", i, "%.64q is no profile with operations; they are %s%s", name, strings.Join(c.ruled(), ", "), meant(name, c.ruled()))
			return
		case table.Open:
			open = true
		}
		for _, operation := range operationsOf(table) {
			known[operation] = true
		}
	}
	if open {
		return
	}
	for i, operation := range rule.Operation {
		if !known[operation] && !strings.Contains(operation, "*") {
			p.addItem(key+".operation", i, "%.64q is no operation of %s; they are %s", operation,
				strings.Join(rule.Profile, ", "), strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
}

// OperationAgentID is the name in the audit trail for the use of an agent_id, which
// access.agents allows, and not a rule.
const OperationAgentID = "agent_id"

// CheckOperation reports whether a profile has an operation that needs a rule. The error
// names the choices. In an open profile, such as MCP, an unknown operation is an error
// only if it is one typing error away from a known one; otherwise CheckOperation returns
// a note.
func (c *Config) CheckOperation(profile, operation string) (note string, err error) {
	table := c.table(profile)
	if table == nil {
		names := c.ruled()
		return "", fmt.Errorf("%.64q is no profile with operations; they are %s%s", profile, strings.Join(names, ", "), meant(profile, names))
	}
	list := operationsOf(table)
	if slices.Contains(list, operation) || profile == "a2a" && operation == OperationAgentID {
		return "", nil
	}
	hint := meant(operation, list)
	switch {
	case !table.Open:
		return "", fmt.Errorf("%.64q is no operation of %s%s; they are %s", operation, profile, hint, strings.Join(list, ", "))
	case hint != "":
		return "", fmt.Errorf("%.64q is no method of %s%s", operation, strings.ToUpper(profile), hint)
	}
	return fmt.Sprintf("%.64q is no method of %s that is known here; a server may have it all the same", operation, strings.ToUpper(profile)), nil
}

// Nameless returns the built-in profiles for which rules have no names.
func Nameless() (names []string) {
	for _, p := range all.Tables() {
		asked := p.Asked()
		if len(asked) > 0 && !slices.ContainsFunc(asked, func(o profiles.Operation) bool { return o.On != "" }) {
			names = append(names, p.Name)
		}
	}
	return names
}

// meant asks whether a known word was meant, one typing error away from a word.
func meant(word string, known []string) string {
	best := plain.Meant(word, known)
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// DoubtfulOperations warns of operations of rules that are unknown in the profiles of the
// rule. Without an open profile in the rule, Load refuses them.
func (c *Config) DoubtfulOperations() (warnings []string) {
	for i, rule := range c.Access.Rules {
		open, known := c.meantBy(rule.Profile)
		for _, operation := range rule.Operation {
			if strings.Contains(operation, "*") || slices.Contains(known, operation) {
				continue
			}
			warnings = append(warnings, fmt.Sprintf("%s.operation: %.64q is not a known operation%s", c.Access.RuleKey(i), operation, meant(operation, open)))
		}
	}
	return warnings
}

// meantBy returns the operations of the profiles that match a list of patterns, and the
// operations of the open profiles among them. An empty list matches all profiles.
func (c *Config) meantBy(names List) (open, known []string) {
	every := len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, "*") })
	for _, name := range c.ruled() {
		if !every && !slices.Contains(names, name) {
			continue
		}
		table := c.table(name)
		known = append(known, operationsOf(table)...)
		if table.Open {
			open = append(open, operationsOf(table)...)
		}
	}
	return open, known
}

// maxPattern is the length of the longest pattern.
const maxPattern = 1024

func checkPatterns(p *problems, key string, patterns List) {
	for i, pattern := range patterns {
		switch {
		case pattern == "":
			p.addItem(key, i, "contains an empty pattern; write \"**\" for anything, or remove it")
		case len(pattern) > maxPattern:
			p.addItem(key, i, "contains a pattern of %d octets, want at most %d", len(pattern), maxPattern)
		}
	}
}

// checkNames refuses patterns that match nobody, because identities are written otherwise: a
// denial that denies nobody must not look like one.
func checkNames(p *problems, key string, patterns List) {
	checkPatterns(p, key, patterns)
	for i, pattern := range patterns {
		if lower := Lowered(pattern); lower != pattern {
			p.addItem(key, i, "%.200q matches nobody, because identities have scheme and host in lower case, and %%3A before the port of a did:web; write %.200q", pattern, lower)
		}
	}
}

// Lowered returns an identity, or a pattern of identities, with its scheme and host in lower
// case, and the colon before the port of a did:web as %3A, as certificates are compared. A name
// without a scheme is one of DNS.
func Lowered(identity string) string {
	scheme, rest, isURI := strings.Cut(identity, ":")
	if !isURI {
		return strings.ToLower(identity)
	}
	host, path := "", rest
	if strings.HasPrefix(rest, "//") {
		end := 2 + strings.IndexByte(rest[2:]+"/", '/')
		host, path = rest[:end], rest[end:]
	}
	if scheme = strings.ToLower(scheme); scheme == "did" && strings.HasPrefix(rest, "web:") {
		path = strings.Replace(path, "%3a", "%3A", 1)
	}
	return scheme + ":" + strings.ToLower(host) + path
}

// checkIdentities refuses patterns that match identities of trust domains which they do
// not name.
func checkIdentities(p *problems, key string, patterns List) {
	if len(patterns) == 0 {
		p.add(key, "missing; name who the rule is for, such as spiffe://example.org/** for everyone of a trust domain, or \"**\" for everyone")
	}
	checkNames(p, key, patterns)
	for i, pattern := range patterns {
		if callers := strings.HasPrefix(pattern, gate.Prefix) && !strings.HasPrefix(pattern, gate.Prefix+"//"); callers && strings.Contains(pattern, "*") {
			p.addItem(key, i, "%.200q also matches callers of the HTTP front that are added later, and the anonymous one; name each caller, such as http:alice", pattern)
			continue
		}
		if hint := crossesDomains(pattern); hint != "" {
			p.addItem(key, i, "%.200q also matches identities of other trust domains; write %s", pattern, hint)
		}
	}
}

// crossesDomains returns the replacement of a pattern whose wildcards match more than
// one trust domain, or names below one domain name, and empty for other patterns. The
// pattern ** is for everyone.
func crossesDomains(pattern string) string {
	literal, _, wild := strings.Cut(pattern, "*")
	if !wild || pattern == "**" {
		return ""
	}
	const example = "spiffe://example.org/** or, for names of DNS, *.example.org"
	scheme, rest, isURI := strings.Cut(literal, "://")
	if isURI {
		domain, _, complete := strings.Cut(rest, "/")
		switch {
		case complete:
			return ""
		case domain == "":
			return example + "; \"**\" is everyone"
		}
		return scheme + "://" + domain + "/**"
	}
	name, below := strings.CutPrefix(pattern, "*.")
	if below && strings.Contains(name, ".") && !strings.ContainsAny(name, "*/") {
		return ""
	}
	return example + "; \"**\" is everyone"
}
