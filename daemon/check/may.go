package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/guard"
	"github.com/slimwire/swp/internal/access"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// AssertsNobody reports whether an identity belongs to a caller of the HTTP front. Such callers act for themselves alone.
func AssertsNobody(identity string) bool { return guard.IsCaller(identity) }

// Question is a question to the access rules.
type Question struct {
	Identity  string `json:"identity"`
	Profile   string `json:"profile"`
	Operation string `json:"operation"`
	Name      string `json:"name"`
}

// Command returns the command that asks it of the configuration FILE.
func (q *Question) Command() string {
	who := plain.Word(profiles.Link(q.Identity))
	if caller := profiles.For(q.Identity); caller != "" {
		who += " --for " + plain.Word(caller)
	}
	return strings.TrimSpace(fmt.Sprintf("swpd check --config FILE --as %s --may %s %s %s", who, plain.Word(q.Profile), plain.Word(q.Operation), plain.Word(q.Name)))
}

// Answer is the answer of the rules of a configuration to a Question, with its reason.
type Answer struct {
	Question
	Allowed bool `json:"allowed"`

	// Open says that every peer may do this, regardless of the rules.
	Open bool `json:"open,omitempty"`

	Rule    *RuleText  `json:"rule,omitempty"`    // the rule that allows it
	Deny    *RuleText  `json:"deny,omitempty"`    // the entry of access.deny that matches the identity
	Nearest []NearRule `json:"nearest,omitempty"` // if no rule matches

	// Partner is the partner whose rules decide as well, if the name belongs to a partner.
	Partner *AtPartner `json:"partner,omitempty"`

	// Barred is the reason that the entry of the partner has against the request, even if a rule
	// allows it; empty if it has none.
	Barred string `json:"barred,omitempty"`

	// Pinned is the tool of Partner if a pin decides as well. Only a running swpd knows whether the partner
	// lists the tool unchanged: see Drifted.
	Pinned string `json:"pinned,omitempty"`

	// Allow is YAML for an entry that would allow this and nothing else. It is empty if the
	// request is allowed, if no pattern can express the name, and if the name does not
	// exist.
	Allow string `json:"allow,omitempty"`

	// AllowClient is YAML for an entry that would allow everything that an MCP client needs
	// to use this server; empty if that is the same as Allow. For a call that is allowed it
	// is empty unless the identity can open no conversation with the server.
	AllowClient string `json:"allow_client,omitempty"`

	// Absent says that the name does not exist here, so that no rule is missing.
	Absent bool `json:"absent,omitempty"`

	Notes []string `json:"notes,omitempty"`
}

// RuleText is an entry of a section of access.
type RuleText struct {
	Key   string `json:"key"`             // such as access.rules[0]
	Place string `json:"place,omitempty"` // file:line, or the environment variable
	Text  string `json:"text"`            // as YAML in one line
}

// NearRule is a rule that nearly matches.
type NearRule struct {
	RuleText
	Misses []string `json:"misses"` // keys of the lists that do not match
}

// AtPartner is the question to the rules of a partner.
type AtPartner struct {
	Name     string   `json:"name"`
	Identity string   `json:"identity"`
	Question Question `json:"question"`
}

// May answers whether an identity may do something under a configuration, by the rules that
// daemon.Run would apply. It fails on an unknown profile or operation, because no rule can
// match it. It does not check whether a trusted authority has issued the identity.
func May(c *config.Config, q Question) (*Answer, error) {
	note, err := c.CheckOperation(q.Profile, q.Operation)
	if err != nil {
		return nil, err
	}
	return answer(c, q, note)
}

// answer answers a question. A note is added to the answer, if there is one.
func answer(c *config.Config, q Question, note string) (*Answer, error) {
	policy, err := guard.NewPolicy(&c.Access, time.Now())
	if err != nil {
		return nil, err
	}
	a := &Answer{Question: q}
	if note != "" {
		a.Notes = append(a.Notes, note)
	}
	a.defaults(c)
	a.decide(c, policy)
	if a.Deny != nil {
		return a, nil // the identity cannot connect
	}
	if err := a.otherwise(c); err != nil {
		return nil, err
	}
	if err := a.beyond(c); err != nil {
		return nil, err
	}
	if why := a.barred(c, time.Now()); why != "" {
		a.Allowed, a.Barred = false, why
		return a, nil
	}
	if a.Partner != nil && a.Profile == "mcp" && a.Operation == mcpmap.MethodToolsCall && len(c.Partners[a.Partner.Name].Pinned) > 0 {
		a.Pinned = a.Partner.Question.Name
	}
	a.suggest(policy)
	return a, nil
}

// Drifted makes the answer no, because the partner lists the pinned tool with another descriptor now, or no
// more. file is the configuration, for the remedy.
func (a *Answer) Drifted(file string) {
	a.Allowed, a.Barred = false, "the partner lists the pinned tool with another descriptor now, or no more, so the call is refused; "+a.repin(file)
}

// repin returns the commands that show and accept a pinned tool.
func (a *Answer) repin(file string) string {
	of := "swpd partner pin " + plain.Word(a.Partner.Name) + " --config " + plain.Word(file)
	return fmt.Sprintf("see it by %s, and accept it by %s --accept %s", of, of, plain.Word(a.Pinned))
}

// barred returns the reason that the entry of a partner has against a request; empty if it has
// none.
func (a *Answer) barred(c *config.Config, now time.Time) string {
	if a.Partner == nil {
		return ""
	}
	name := a.Partner.Name
	conf := c.Partners[name]
	if why := conf.Barred(name, now); why != "" {
		return why + ", so nothing is sent to it"
	}
	tool := a.Partner.Question.Name
	if _, pinned := conf.Pinned[tool]; len(conf.Pinned) == 0 || pinned || a.Profile != "mcp" || a.Operation != mcpmap.MethodToolsCall {
		return ""
	}
	return fmt.Sprintf("partners.%s.pinned has other tools and not %s, so the call is refused; swpd partner pin %s --accept %s adds it", name, tool, name, plain.Word(tool))
}

// defaults makes a question that names no MCP server, with an empty name or one that begins
// with a slash, one about the default server.
func (a *Answer) defaults(c *config.Config) {
	if a.Profile != "mcp" || a.Name != "" && a.Name[0] != '/' {
		return
	}
	server := defaultServer(c)
	if server == "" {
		a.Notes = append(a.Notes, "no MCP server is named, and none is the default one")
		return
	}
	a.Name = server + a.Name
	a.Notes = append(a.Notes, "no MCP server is named, so this is about the default one: "+a.Name)
}

// defaultServer is the MCP server for requests without a server; empty if no server is the default.
func defaultServer(c *config.Config) string {
	for name := range c.MCP.Servers {
		if isDefault(c, name) {
			return name
		}
	}
	return ""
}

// isDefault reports whether requests that name no MCP server are for this one.
func isDefault(c *config.Config, server string) bool {
	return c.MCP.Servers[server].Default || len(c.MCP.Servers) == 1
}

// agentID reports whether the question is about using an agent_id.
func (q *Question) agentID() bool {
	return q.Profile == "a2a" && q.Operation == config.OperationAgentID
}

// filter reports whether the question is about the types of a filter that have a beginning: a
// name with a star at its end, or none for every type. Such a subscription is allowed if one
// of the types is.
func (q *Question) filter() (beginning string, ok bool) {
	beginning, ok = strings.CutSuffix(q.Name, "*")
	return beginning, q.Profile == events.Name && q.Operation == "subscribe" && (ok || q.Name == "")
}

func (a *Answer) decide(c *config.Config, policy *access.Policy) {
	section, entry := "rules", func(i int) string { return ruleText(&c.Access.Rules[i]) }
	var d access.Decision
	if a.agentID() {
		section, entry = "agents", func(i int) string { return agentText(&c.Access.Agents[i]) }
		d = policy.DecideUse(a.Identity, a.Name)
	} else {
		d = policy.Decide(a.Identity, a.Profile, a.Operation, a.Name)
	}
	if beginning, ok := a.filter(); ok {
		d = policy.DecideSome(a.Identity, a.Profile, a.Operation, beginning)
	}
	named := func(section string, i int, text string) *RuleText {
		key := fmt.Sprintf("access.%s[%d]", section, i)
		switch section {
		case "rules":
			key = c.Access.RuleKey(i)
		case "deny":
			key = c.Access.DenyKey(i)
		}
		return &RuleText{Key: key, Place: c.Place(key), Text: text}
	}
	a.Open = a.Profile == "rpc" && slices.Contains(all.Open(), a.Name) && d.Deny < 0
	a.Allowed = d.Allowed || a.Open
	if d.Deny >= 0 {
		a.Deny = named("deny", d.Deny, denialText(&c.Access.Deny[d.Deny]))
		if a.Deny.Place == "" { // a list of one element may be written as a string
			a.Deny.Place = c.Place("access.deny")
		}
	}
	if d.Rule >= 0 {
		a.Rule = named(section, d.Rule, entry(d.Rule))
	}
	if a.Open {
		return
	}
	if slices.Contains(c.Access.Named, profiles.Link(a.Identity)) && !a.Allowed {
		a.Notes = append(a.Notes, "its entry in partners has named_only, so of the rules only those apply to it that name its identity in full")
	}
	for _, m := range d.Nearest {
		near := NearRule{RuleText: *named(section, m.Rule, entry(m.Rule))}
		for key, missed := range map[string]bool{"identity": m.Identity, "for": m.For, "operation": m.Operation, "name": m.Name} {
			if missed {
				near.Misses = append(near.Misses, key)
			}
		}
		slices.Sort(near.Misses)
		a.Nearest = append(a.Nearest, near)
	}
}

// otherwise notes the entries that decide otherwise for some callers that the identity asserts.
func (a *Answer) otherwise(c *config.Config) error {
	if profiles.For(a.Identity) != "" || a.agentID() {
		return nil
	}
	var keys []string
	for i, d := range c.Access.Deny {
		if !a.Allowed || len(d.For) == 0 {
			continue
		}
		policy, err := guard.NewPolicy(&config.Access{Deny: config.Denials{{Identity: d.Identity}}}, time.Now())
		if err != nil {
			return err
		}
		if policy.Denied(a.Identity) {
			keys = append(keys, c.Access.DenyKey(i))
		}
	}
	for _, near := range a.Nearest {
		if !a.Allowed && slices.Equal(near.Misses, []string{"for"}) {
			keys = append(keys, near.Key)
		}
	}
	if len(keys) > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("%s may decide otherwise for a caller that the identity asserts: ask with --for CALLER", strings.Join(keys, ", ")))
	}
	return nil
}

// beyond adds the partner that decides after these rules, and detects names that do not
// exist.
func (a *Answer) beyond(c *config.Config) error {
	first, rest, deeper := strings.Cut(a.Name, "/")
	conf, partner := c.Partners[first]
	if segments := strings.Count(a.Name, "/") + 1; a.Profile == "mcp" && a.Operation == mcpmap.MethodToolsCall && (segments < 2 || partner && segments < 3) {
		a.Notes = append(a.Notes, fmt.Sprintf("the name of a call ends with the tool: %s/TOOL", a.Name))
		if server := defaultServer(c); segments == 1 && !partner && server != "" && server != first {
			a.Notes = append(a.Notes, fmt.Sprintf("a tool of the default MCP server has the name %s/%s", server, a.Name))
		}
	}
	if partner {
		if !deeper || !slices.Contains(reachable(), a.Profile) {
			return nil
		}
		own, err := nameOf(c)
		if err != nil {
			return err
		}
		a.Partner = &AtPartner{Name: first, Identity: conf.Identity, Question: Question{toldTo(&conf, own, a.Identity), a.Profile, a.Operation, rest}}
		return nil
	}
	var what string
	var names []string
	switch {
	case a.Profile == "mcp":
		what, names = "MCP server", slices.Sorted(maps.Keys(c.MCP.Servers))
		a.Absent = !slices.Contains(names, first)
	case a.Profile == "rpc":
		what, names = "RPC method", methodsOf(c)
		a.Absent = !slices.Contains(names, a.Name)
		first = a.Name
	}
	if a.Absent {
		for _, name := range slices.Sorted(maps.Keys(c.Partners)) {
			names = append(names, name+"/…")
		}
		a.Notes = append(a.Notes, fmt.Sprintf("no %s and no partner is called %q here; there are: %s", what, first, orNone(names)))
	}
	return nil
}

// toldTo returns the identity that a partner has of a request of an identity, if it is told the
// caller: own is that of this endpoint. A pseudonym is not known here.
func toldTo(conf *config.Partner, own, identity string) string {
	if conf.Tell != config.TellCaller || profiles.For(identity) != "" {
		return own
	}
	return profiles.OnBehalf(own, identity)
}

// methodsOf returns the RPC methods that a configuration serves, built-in ones first.
func methodsOf(c *config.Config) []string {
	names := all.Open()
	for _, backend := range slices.Sorted(maps.Keys(c.RPC.Backends)) {
		names = append(names, c.RPC.Backends[backend].Methods...)
	}
	return names
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// suggest makes the narrowest entry that would allow the request, and the entry for a
// client of an MCP server.
func (a *Answer) suggest(policy *access.Policy) {
	name, pattern := a.Name, a.Name
	if beginning, ok := a.filter(); ok {
		name, pattern = beginning, beginning+"**"
		a.Notes = append(a.Notes, "a subscription gets the events of those types that the rules allow, and no others")
	}
	switch {
	case a.Allowed:
		if a.Profile == "mcp" && a.Operation == mcpmap.MethodToolsCall && !a.Absent {
			a.suggestClient(policy)
		}
		return
	case strings.Contains(a.Identity+a.Operation+name, "*"):
		a.Notes = append(a.Notes, "no pattern stands for a star alone, so that no rule allows this and nothing else")
		return
	case a.Absent:
		return
	case a.agentID():
		a.Allow = yamlList("agents", agentText(&config.AgentRule{Identity: config.List{profiles.Link(a.Identity)}, AgentIDs: config.List{a.Name}}))
		return
	}
	rule := a.rule(a.Profile)
	rule.Operation = config.List{a.Operation}
	if pattern != "" {
		rule.Name = config.List{pattern}
	}
	a.Allow = yamlList("rules", ruleText(&rule))
	if a.Profile == "mcp" {
		a.suggestClient(policy)
	}
}

// clientMethods are the methods that clients of MCP servers of either era need in addition
// to tools/call.
var clientMethods = []string{mcpmap.MethodDiscover, mcpmap.MethodInitialize, "ping", "notifications/**", "tools/list"}

// suggestClient makes an entry with all rights that a client needs and does not have yet. A
// question about no tool is treated as one about all tools of the server, unless some tools
// are allowed already.
func (a *Answer) suggestClient(policy *access.Policy) {
	server, tool := a.Name, a.Name+"/*"
	call := !policy.AllowedSome(a.Identity, "mcp", mcpmap.MethodToolsCall, server+"/")
	switch {
	case a.Operation == mcpmap.MethodToolsCall:
		cut := strings.IndexByte(a.Name, '/')
		if a.Partner != nil {
			cut = strings.LastIndexByte(a.Name, '/')
		}
		if cut < 0 || a.Partner != nil && cut == len(a.Partner.Name) {
			return // the tool does not exist
		}
		server, tool, call = a.Name[:cut], a.Name, !a.Allowed
		if a.Allowed {
			if policy.Allowed(a.Identity, "mcp", mcpmap.MethodDiscover, server) || policy.Allowed(a.Identity, "mcp", mcpmap.MethodInitialize, server) {
				return
			}
			a.Notes = append(a.Notes, fmt.Sprintf("a client also needs %s or %s of %s, and no rule allows them to this identity", mcpmap.MethodDiscover, mcpmap.MethodInitialize, server))
		}
	case slices.Contains(clientMethods, a.Operation), strings.HasPrefix(a.Operation, "notifications/"):
	default:
		return
	}
	rule := a.rule("mcp")
	rule.Name = config.List{server}
	for _, method := range clientMethods {
		if !policy.Allowed(a.Identity, "mcp", method, server) {
			rule.Operation = append(rule.Operation, method)
		}
	}
	if call {
		rule.Operation, rule.Name = append(rule.Operation, mcpmap.MethodToolsCall), append(rule.Name, tool)
	}
	if len(rule.Operation) > 1 {
		a.AllowClient = yamlList("rules", ruleText(&rule))
	}
}

// rule begins a rule of a profile for the identity of the question.
func (a *Answer) rule(profile string) config.AccessRule {
	r := config.AccessRule{Identity: config.List{profiles.Link(a.Identity)}, Profile: config.List{profile}}
	if who := profiles.For(a.Identity); who != "" {
		r.For = config.List{who}
	}
	return r
}

func yamlList(section, entry string) string {
	return "access:\n  " + section + ":\n    - " + entry + "\n"
}

func ruleText(r *config.AccessRule) string {
	return flow([]field{{"identity", r.Identity}, {"for", r.For}, {"profile", r.Profile}, {"operation", r.Operation}, {"name", r.Name}})
}

func denialText(d *config.Denial) string {
	switch {
	case d.Why != "":
		return d.Why
	case len(d.Identity) == 1 && len(d.For) == 0:
		return d.Identity[0]
	}
	return flow([]field{{"identity", d.Identity}, {"for", d.For}})
}

func agentText(r *config.AgentRule) string {
	return flow([]field{{"identity", r.Identity}, {"agent_ids", r.AgentIDs}})
}

// field is a key of an entry with its patterns.
type field struct {
	key  string
	list config.List
}

// flow writes an entry as YAML in one line, with every string in quotes. Keys without a
// pattern are left out.
func flow(fields []field) string {
	var parts []string
	for _, f := range fields {
		texts := make([]string, len(f.list))
		for i, text := range f.list {
			texts[i] = fmt.Sprintf("%q", text)
		}
		switch len(texts) {
		case 0:
		case 1:
			parts = append(parts, f.key+": "+texts[0])
		default:
			parts = append(parts, f.key+": ["+strings.Join(texts, ", ")+"]")
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
