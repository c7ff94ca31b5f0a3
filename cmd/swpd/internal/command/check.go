package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon"
	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles"
)

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [PROFILE] [OPERATION] [NAME]",
		Short: "Check a configuration and print what it would serve to which identity",
		Long: `Read a configuration, and the certificates and programs that it names, as run would,
and print what would be served to which identities. Nothing is started or created.
If there are errors, all of them are printed and the exit code is 2.

The answer names the configuration that it is by. If that is the built-in one, and the
swpd that runs here or this directory has another, it names the option for that one.

With --data, read the whole store and all artifacts too, as swpd store export does: damage
is an error, and so is a store of another release. If the next start of swpd migrates the
store, the error says so.

With --as, print the rights of one identity: the rules for it, the agent_ids that it
may use, and the things of this configuration that it can reach. MCP tools are shown
as patterns, and names of partners as PARTNER/…: only servers and partners know the
names.

With --as and --for, print the rights of an identity on behalf of a caller that it
asserts, such as those of a partner for one of its callers.

With --as and --may, answer whether that identity may do one thing: yes or no, and
the rule for it, or the nearest rules. NAME is the name in rules: SERVER/TOOL, a
method, AGENT/KIND, or the same after PARTNER/. Profiles
` + strings.Join(config.Nameless(), " and ") + ` have none. The exit code is 0 for yes and 1 for no.`,
		Example: `  swpd check --config swpd.yaml
  swpd check --config swpd.yaml --json
  swpd check --config swpd.yaml --as spiffe://example.org/agents/planner
  swpd check --config swpd.yaml --as spiffe://example.org/agents/planner --may mcp tools/call files/read_file`,
	}
	file := configFlag(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	as := cmd.Flags().String("as", "", "print the rights of an `identity`")
	caller := cmd.Flags().String("for", "", "with --as, on behalf of a `caller` that the identity asserts")
	data := cmd.Flags().Bool("data", false, "also read the whole store and its artifacts, and fail if something is damaged; swpd must not run")
	strict := cmd.Flags().Bool("strict", false, "fail if there is a warning, such as that of a rule for an unknown operation or name")
	may := cmd.Flags().Bool("may", false, "with --as, answer whether it may do PROFILE OPERATION NAME")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case *may:
			return checkQuestion(*as, args)
		case len(args) == 0:
			return nil
		case len(args) == 1:
			return cli.Unexpected(cmd, args[0])
		}
		return cli.Usagef("unexpected argument %.80q; PROFILE OPERATION NAME belong to --as IDENTITY --may", args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *data && (*may || cmd.Flags().Changed("as")) {
			return cli.Usagef("check: --data has no effect with --as")
		}
		if *strict && (*may || cmd.Flags().Changed("as")) {
			return cli.Usagef("check: --strict has no effect with --as")
		}
		identity, err := onBehalf(*as, *caller)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		if *may || cmd.Flags().Changed("as") {
			return answerAs(cmd, *file, identity, args, *asJSON)
		}
		c, err := loadAll(*file)
		if err != nil {
			return err
		}
		by := basisOf(*file)
		plan, err := check.ReadBeside(c, storedNames(*file))
		if err != nil {
			return &exitError{exitUsage, err}
		}
		if names := plan.Claims; names != nil {
			o := ownership{conf: c, file: *file, configured: true}
			names.Owns = o.owns
			if err := names.Check(); err != nil {
				return &exitError{exitUsage, err}
			}
			plan.Warnings = append(plan.Warnings, o.unknown...)
		}
		var read *daemon.Transferred
		if *data {
			n, err := readData(cmd.Context(), c, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			read = &n
		}
		if *asJSON {
			err = printJSON(cmd.OutOrStdout(), struct {
				*check.Plan
				Other string              `json:"other_config,omitempty"`
				Data  *daemon.Transferred `json:"data,omitempty"`
			}{plan, by.Other, read})
		} else {
			err = printPlan(cmd.OutOrStdout(), plan, by)
			if err == nil && read != nil {
				err = printTransferred(cmd.OutOrStdout(), *read, "data: all of it can be read", false)
			}
		}
		if n := len(plan.Warnings); err == nil && *strict && n > 0 {
			err = &exitError{exitUsage, fmt.Errorf("check --strict: %d of the lines above are warnings; correct them, or check without --strict", n)}
		}
		return err
	}
	return cmd
}

// answerAs prints the rights of an identity, or whether it may do what the arguments say.
func answerAs(cmd *cobra.Command, file, identity string, args []string, asJSON bool) error {
	needs := theRules()
	needs.Keys = append(needs.Keys, "listeners") // of which an answer names one
	c, err := load(cmd, file, needs)
	if err != nil {
		return err
	}
	by := basisOf(file)
	if len(args) > 0 {
		return answerMay(cmd.OutOrStdout(), c, by, identity, args, asJSON)
	}
	p, err := check.As(c, identity)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), struct {
			basis
			*check.Permissions
		}{by, p})
	}
	return printPermissions(cmd.OutOrStdout(), p, by, addressHere(c))
}

// onBehalf returns the identity that --as and --for name.
func onBehalf(as, caller string) (string, error) {
	for flag, name := range map[string]string{"--as": as, "--for": caller} {
		if lower := config.Lowered(name); lower != name {
			return "", fmt.Errorf("check %s: %.200q is nobody, because identities have scheme and host in lower case, and %%3A before the port of a did:web; ask about %.200q", flag, name, lower)
		}
	}
	switch {
	case caller == "":
		return as, nil
	case as == "":
		return "", errors.New("check --for: --as IDENTITY is missing")
	case check.AssertsNobody(as):
		return "", fmt.Errorf("check --for: %.200q is a caller of the HTTP front, which asserts nobody; ask --as %.200q alone, or --for it about the peer that asserts it", as, as)
	}
	return profiles.OnBehalf(as, caller), nil
}

func printPlan(out io.Writer, p *check.Plan, by basis) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	row("configuration\t%s", by)
	row("identity\t%s", p.Identity)
	if !p.NotAfter.IsZero() {
		row("certificate\tvalid until %s", p.NotAfter.Format(time.RFC3339))
	}
	row("trust\t%s", strings.Join(p.Trust, "\n\t"))
	for _, l := range p.Listeners {
		note := ""
		if l.ErrorFrames {
			note = ", refusals explained on profile 4096"
		}
		row("listen\t%s\topen to %s%s", l.Address, l.Peers, note)
	}
	row("admin\t%s", p.Admin)
	if p.Health != config.AdminOff {
		row("health\t%s\topen to everybody who can reach it", p.Health)
	}
	if p.Metrics != config.AdminOff {
		row("metrics\t%s\tover TLS, with a token or a certificate", p.Metrics)
	}
	row("store\t%s", p.Store)
	if p.Node != "" {
		row("node\t%s", p.Node)
	}
	row("freshness\t%s", p.Freshness)
	for i, method := range p.Open {
		title := ""
		if i == 0 {
			title = "RPC"
		}
		row("%s\t%s\topen to every peer", title, method)
	}
	for _, s := range p.Servers {
		note := ""
		if s.Default {
			note = ", the default"
		}
		row("MCP server\t%s\topen to %s%s", s.Name, whom(s.Allowed), note)
		if s.URL != "" {
			row("\t%s\theaders: %s", s.URL, strings.Join(s.Headers, " "))
			continue
		}
		row("\t%s\t%s; environment: PATH %s", s.Command, plain.Count(s.Args, "argument"), strings.Join(s.Env, " "))
	}
	services := func(title string, list []check.PlanService) {
		for _, s := range list {
			row("%s\t%s\t%s", title, s.Name, s.At)
			for _, n := range s.Names {
				row("\t%s\topen to %s", n.Name, whom(n.Allowed))
			}
		}
	}
	services("A2A worker", p.Workers)
	for _, a := range p.Agents {
		binding := a.Binding
		if binding == "" {
			binding = "as its card says"
		}
		row("A2A agent\t%s\topen to %s", a.Name, whom(a.Allowed))
		row("\t%s\t%s; headers: %s", a.URL, binding, strings.Join(a.Headers, " "))
	}
	for _, t := range p.Teams {
		row("team\t%s\topen to %s", t.Name, whom(t.Allowed))
		row("\t%s\tmembers: %s", t.Default, strings.Join(t.Members, " "))
	}
	if p.SDL.AgentID != "" {
		row("A2A-SDL\t%s\tmode %s; tools: %s", p.SDL.AgentID, p.SDL.Mode, strings.Join(p.SDL.Tools, " "))
	}
	for _, pattern := range slices.Sorted(maps.Keys(p.SDL.Routes)) {
		row("A2A-SDL route\t%s\tto %s", pattern, p.SDL.Routes[pattern])
	}
	if len(p.SLIP.Numbers)+len(p.SLIP.Kept)+p.SLIP.Anchors > 0 {
		row("SLIP\t%s\t%s of its own; kept for: %s", plain.Count(len(p.SLIP.Numbers), "agent number"), plain.Count(p.SLIP.Anchors, "anchor"), strings.Join(p.SLIP.Kept, " "))
	}
	if len(p.SLIP.A2A) > 0 {
		row("SLIP-A2A\t\tfor %s", strings.Join(p.SLIP.A2A, " "))
	}
	for _, one := range p.Partners {
		at := "it dials"
		if len(one.Addresses) > 0 {
			at = strings.Join(one.Addresses, " ")
		}
		serves := "no rule is for it here"
		if one.Serves {
			serves = "rules let it do something here"
		}
		row("partner\t%s\topen to %s", one.Name, whom(one.Allowed))
		row("\t%s\t%s; %s", one.Identity, at, serves)
		if one.File != "" {
			row("\tfrom\t%s", one.File)
		}
		if terms := terms(&one); terms != "" {
			row("\tterms\t%s", terms)
		}
		row("\tqueue\tat most %s, %s", plain.Count(one.Messages, "delivery"), one.Queue)
		if len(one.Trust) > 0 {
			row("\ttrust\t%s", strings.Join(one.Trust, " "))
		}
		if one.Bundle != "" {
			row("\tbundle\t%s, which check does not ask", one.Bundle)
		}
	}
	printHTTP(row, &p.HTTP)
	services("RPC backend", p.Backends)
	for _, n := range p.Cards {
		row("agent card\t%s\topen to %s", n.Name, whom(n.Allowed))
	}
	for _, n := range p.Tools {
		row("tool\t%s\topen to %s", n.Name, whom(n.Allowed))
	}
	for _, warning := range p.Warnings {
		row("warning\t%s", warning)
	}
	return w.Flush()
}

// terms says how long a partnership lasts; empty if nothing limits it.
func terms(p *check.PlanPartner) string {
	var list []string
	if p.State != config.StateActive {
		list = append(list, p.State)
	}
	if p.ValidUntil != "" {
		list = append(list, "valid until "+p.ValidUntil)
	}
	if p.ReviewBy != "" {
		list = append(list, "to be reviewed by "+p.ReviewBy)
	}
	return strings.Join(list, "; ")
}

func printHTTP(row func(string, ...any), h *check.PlanHTTP) {
	note := ""
	if h.TLS {
		note = "\tTLS"
	}
	if len(h.CA) > 0 {
		note += ", client certificates of " + strings.Join(h.CA, " ")
	}
	row("http\t%s%s", h.Address, note)
	for _, c := range h.Callers {
		by := plain.Count(c.Tokens, "token") + ", " + plain.Count(c.Certificates, "certificate")
		if c.Anonymous {
			by = "callers without a token or a certificate"
		}
		row("\t%s\t%s", c.Identity, by)
	}
}

// whom says who patterns of identities are.
func whom(patterns []string) string {
	switch {
	case len(patterns) == 0:
		return "nobody"
	case slices.Contains(patterns, "**"):
		return "every peer"
	}
	return strings.Join(patterns, ", ")
}

// addressHere is an address of a listener for clients on this machine.
func addressHere(c *config.Config) string {
	for _, l := range c.Listeners {
		if l.Address.Port != 0 {
			return onThisMachine(l.Address.Addr)
		}
	}
	return "ADDR"
}

func printPermissions(out io.Writer, p *check.Permissions, by basis, address string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	list := func(title string, names []string) {
		if len(names) == 0 {
			names = []string{"none"}
		}
		row("%s\t%s", title, strings.Join(names, "\n\t"))
	}
	row("configuration\t%s", by)
	row("identity\t%s", p.Identity)
	if p.Denied {
		row("denied\tis not let in: access.deny")
		return w.Flush()
	}
	for _, r := range p.Rules {
		who := ""
		if len(r.For) > 0 {
			who = "\tfor " + strings.Join(r.For, " ")
		}
		row("may\tprofile %s\toperation %s\tname %s%s", strings.Join(r.Profile, " "), strings.Join(r.Operation, " "), strings.Join(r.Name, " "), who)
	}
	for _, r := range p.Withheld {
		row("not for it\tprofile %s\toperation %s\tname %s\tits entry in partners has named_only", strings.Join(r.Profile, " "), strings.Join(r.Operation, " "), strings.Join(r.Name, " "))
	}
	if len(p.Rules) == 0 {
		row("may\tnothing but what is open to every peer: no rule is for this identity")
	}
	list("agent_ids", p.AgentIDs)
	list("MCP servers", p.Servers)
	list("MCP tools", p.MCPTools)
	list("RPC methods", p.Methods)
	list("A2A kinds", p.Kinds)
	list("agent cards", p.Cards)
	list("tools", p.Tools)
	for _, one := range p.Partners {
		row("partner\t%s/…\t%s\tthe names behind it are known to %s alone", one.Name, strings.Join(one.Profiles, " "), one.Identity)
	}
	if len(p.MCPTools) > 0 {
		row("note\tpatterns of MCP tools are as the rules have them; the identity sees which tools there are by: swp-client tools ls %s", address)
	}
	return w.Flush()
}

func printJSONLine(out io.Writer, v any) error { return json.NewEncoder(out).Encode(v) }

func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
