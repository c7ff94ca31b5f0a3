package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/tooldisc"
	"github.com/slimwire/swp/transport"
)

// request is what a command asks an endpoint for, in the words of access rules.
type request struct {
	what               string // in front of the name, for people
	profile, operation string

	// name returns the name in access rules, without the partners of the address. Nil: the
	// request has no name.
	name func(cmd *cobra.Command, args []string) string

	list string // the command that lists the rights of this identity; empty: there is none
}

// requests describe the requests of the commands, by command path.
func requests() map[string]request {
	arg := func(i int) func(*cobra.Command, []string) string {
		return func(_ *cobra.Command, args []string) string { return args[i] }
	}
	flag := func(name, otherwise string) func(*cobra.Command, []string) string {
		return func(cmd *cobra.Command, _ []string) string { return cmp.Or(cmd.Flag(name).Value.String(), otherwise) }
	}
	fixed := func(name string) func(*cobra.Command, []string) string {
		return func(*cobra.Command, []string) string { return name }
	}
	tool := func(cmd *cobra.Command, args []string) string {
		if at := server(cmd, args); at != "" {
			return at + "/" + args[1]
		}
		return "/" + args[1]
	}
	kind := func(cmd *cobra.Command, args []string) string {
		return strings.TrimPrefix(target(args)+"/"+cmd.Flag("kind").Value.String(), "/")
	}
	subscribed := func(cmd *cobra.Command, _ []string) string {
		filter, err := events.ParseFilter(cmd.Flag("filter").Value.String())
		if err != nil {
			return ""
		}
		if types := filter.Types(); len(types) > 0 {
			return types[0] // all of them are refused
		}
		return "*"
	}
	method := request{"the method", "rpc", "call", arg(1), ""}
	return map[string]request{
		"mcp call":         {"the tool", "mcp", "tools/call", tool, "tools ls"},
		"mcp list":         {"the tools of the MCP server", "mcp", "tools/list", server, "rpc call ADDR swp.info"},
		"rpc call":         method,
		"rpc stream":       method,
		"a2a send":         {"tasks of the kind", "a2a", "task", kind, "agents ls"},
		"agents get":       {"the card of", "agdisc", "get", arg(1), "agents ls"},
		"tools get":        {"the tool", "tooldisc", "get", arg(1), "tools ls"},
		"artifact put":     {"to offer the artifact", "artifact", "offer", flag("id", "ARTIFACT_ID"), "artifact ls"},
		"artifact get":     {"the artifact", "artifact", "get", arg(1), "artifact ls"},
		"state put":        {"to put a state", "state", "put", fixed("STATE_ID"), ""},
		"state get":        {"the state", "state", "get", arg(1), ""},
		"state delta":      {"to put a delta of", "state", "delta", arg(1), ""},
		"events publish":   {"to publish events of the type", "events", "publish", flag("type", ""), ""},
		"events subscribe": {"to subscribe to", "events", "subscribe", subscribed, ""},
		"relay publish":    {"to publish to the topic", "relay", "publish", arg(1), ""},
		"relay consume":    {"to consume the topic", "relay", "consume", arg(1), ""},
		"cred present":     {"to show credentials of the type", "cred", "present", flag("type", ""), ""},
		"cred delegate":    {"to delegate credentials of the type", "cred", "delegate", fixed("CRED_TYPE"), ""},
		"policy set":       {"to set hints", "policyhint", "set", nil, ""},
		"obs set":          {"to set the trace context", "obs", "set", nil, ""},
		"obs get":          {"to read the trace context", "obs", "get", nil, ""},
		"sdl send":         {"to speak as", "sdl", "send", flag("from", "AGENT_ID"), ""},
		"slip send":        {"to send to an agent", "slip", "send", fixed("AGENT_ID"), ""},
	}
}

// requestOf describes a step of a command. list is the command that lists what may be used,
// empty for a method.
func requestOf(step client.Action, list string) request {
	r := request{what: "the method", profile: step.Profile, operation: step.Operation}
	if step.Profile == "mcp" {
		r.list, r.what = list, step.Operation+" of the MCP server"
		if step.Operation == mcpmap.MethodToolsCall {
			r.what = "the tool"
		}
	}
	return r
}

// target is what the address names behind the endpoint.
func target(args []string) string {
	_, target, _ := split(args[0])
	return target
}

// server is the MCP server that a command names, empty for the default one.
func server(cmd *cobra.Command, args []string) string {
	return cmp.Or(target(args), cmd.Flag("server").Value.String())
}

// Codes of refusals by access rules, and of names that are hidden from this identity.
var (
	denials = []string{profiles.SecurityPolicy.String(), profiles.SecurityPolicy.Alias(), rpc.CodeUnauthorized}
	absents = []string{profiles.NotFound.String(), profiles.NotFound.Alias()}
)

// unreached is what endpoints say of a partner to which there is no link.
const unreached = "cannot be reached now"

// unknown returns advice for an unknown name behind a prefix, with the known name that is most
// similar to it.
func unknown(what, prefix, name string, known []string) string {
	text := fmt.Sprintf("The %s %s is not known there", what, visible(prefix+name))
	if like := plain.Meant(name, known); like != "" {
		text += "; did you mean " + visible(prefix+like) + "?"
	}
	return text
}

// maxKnown bounds the names that an unknown name is compared with.
const maxKnown = 10_000

// help adds to the report of a refusal the next steps: what to do about a hint or a chain of
// credentials; else the refused request, for the operator the access rules, and for this
// identity the command that lists its rights.
func (f *flags) help(err error, r *cli.Report) {
	if f.running == nil || r.Kind != cli.KindRefused {
		return
	}
	if advice := f.condition(r); advice != "" {
		r.Advice = strings.TrimPrefix(r.Advice+"\n"+advice, "\n")
		return
	}
	path := strings.TrimPrefix(f.running.CommandPath(), f.running.Root().Name()+" ")
	args := f.running.Flags().Args()
	asked, known := requests()[path]
	name := ""
	if known {
		name = asked.named(f, args)
	}
	if step, ok := client.ActionOf(err); ok {
		if step.Operation != asked.operation || step.Name != "" {
			name = visible(step.Name)
		}
		asked, known = requestOf(step, asked.list), true
	}
	denied := slices.Contains(denials, r.Code)
	if strings.Contains(r.Message, unreached) {
		r.Advice = strings.TrimPrefix(r.Advice+"\nThere swpd status shows the link to the partner, and why it is down. When it is up, the same command works.", "\n")
		return
	}
	if !known || !denied && !slices.Contains(absents, r.Code) {
		return
	}
	name = asked.at(name, r.Partner)
	if asked.profile == tooldisc.Name && strings.Contains(name, "/") { // a tool of an MCP server is shown to those who may call it
		asked.profile, asked.operation = "mcp", mcpmap.MethodToolsCall
	}
	reason := "finds the reason"
	if !denied {
		reason = "finds out whether rules hide it"
	}
	lines := []string{r.Advice}
	what, word := strings.TrimSpace(asked.what+" "+name), plain.Word(name)
	if tool, ok := strings.CutPrefix(name, "/"); asked.profile == "mcp" && ok {
		what = asked.what + " " + tool + " of the default MCP server"
	} else if asked.profile == "mcp" && name == "" {
		what, word = strings.Replace(asked.what, "the MCP server", "the default MCP server", 1), "''"
	}
	as, told := f.identityFor(r), f.knownAs(r)
	if told != "" {
		as += " --for " + plain.Word(visible(told))
	}
	lines = append(lines, fmt.Sprintf("Asked for: %s. %s %s with: swpd check --config FILE --as %s --may %s",
		what, operator(r), reason, as, strings.TrimSpace(asked.profile+" "+asked.operation+" "+word)))
	if partner, rest, _ := strings.Cut(name, "/"); asked.profile == "mcp" && !denied && strings.Contains(rest, "/") {
		lines = append(lines, fmt.Sprintf("A tool of a partner with pinned tools is hidden, too, while it is not pinned or differs from its pin: swpd partner pin %s shows it.", plain.Word(partner)))
	}
	if r.Partner != "" && told == "" {
		lines = append(lines, "If rules there name callers (for), add --for with the caller as that endpoint knows it: the line \"refused by partner\" in the log of the endpoint here has it in told.")
	}
	if asked.list != "" {
		lines = append(lines, "What this identity may use is listed by: "+f.commandLine(asked.listing(f, args[0])...))
	}
	r.Advice = strings.Trim(strings.Join(lines, "\n"), "\n")
}

// named returns the name that the rules of the endpoint at the address have for it.
func (q *request) named(f *flags, args []string) string {
	if q.name == nil {
		return ""
	}
	name := visible(cmp.Or(f.asked, q.name(f.running, args)))
	if partner := target(args); f.partners && partner != "" && name != "" {
		name = partner + "/" + name
	}
	return name
}

// at returns the name that the rules of a partner have for a name here; without a partner
// they are the same. A tool of the default MCP server is /tool, and that server has no name.
func (q *request) at(name, partner string) string {
	there, ok := strings.CutPrefix(name+"/", partner+"/")
	if partner == "" || !ok {
		return name
	}
	there = strings.TrimSuffix(there, "/")
	if q.operation == mcpmap.MethodToolsCall && there != "" && !strings.Contains(there, "/") {
		return "/" + there
	}
	return there
}

// listing is the command that lists what there is at an address.
func (q *request) listing(f *flags, address string) []string {
	addr, target, _ := split(address)
	at := addr.String()
	if f.partners && target != "" {
		at += "/" + target
	}
	words := strings.Fields(q.list)
	if i := slices.Index(words, addrPlain); i >= 0 {
		words[i] = at
		return words
	}
	return append(words, at)
}

// operator names the operator of the endpoint whose rules refused.
func operator(r *cli.Report) string {
	if r.Partner != "" {
		return "The operator of partner " + visible(r.Partner)
	}
	return "Its operator"
}

// identityFor is who this side is to the endpoint that refused, or a word for it: a
// partner knows the endpoint that was dialled.
func (f *flags) identityFor(r *cli.Report) string {
	if r.Partner != "" {
		if peer := f.peer.Load(); peer != nil && !strings.Contains(r.Partner, "/") {
			return plain.Word(visible(*peer))
		}
		return "IDENTITY_OF_THE_ENDPOINT_HERE"
	}
	if addr, _, err := split(f.address()); err == nil && addr.Transport == "tcp" {
		return transport.LoopbackIdentity
	}
	if id, err := f.findIdentity(); err == nil {
		return cmp.Or(id.Name(), "IDENTITY")
	}
	return "IDENTITY"
}

// toldIn limits the time for finding out how a partner knows this identity.
const toldIn = 2 * time.Second

// knownAs returns how the partner that has refused knows this identity: its rules may name callers. It is empty if the
// partner does not distinguish callers, and if the endpoint here does not say it.
func (f *flags) knownAs(r *cli.Report) string {
	addr, _, err := split(f.address())
	if r.Partner == "" || err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), toldIn)
	defer cancel()
	c, err := f.dialOnly(ctx, addr.String(), nil)
	if err != nil {
		return ""
	}
	defer c.Close()
	info, err := c.Info(ctx)
	if err != nil {
		return ""
	}
	return info.KnownAs[r.Partner]
}
