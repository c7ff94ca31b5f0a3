package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/daemon"
)

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check a configuration and say what it would serve to whom",
		Long: `Read a configuration, the certificates and the programs it names, as run would,
and print what would be served to whom. Nothing is started and nothing is made.
If something is wrong, every problem is printed and the exit code is 2.`,
		Example: `  swpd check --config swpd.yaml
  swpd check --config swpd.yaml --json`,
		Args: cobra.NoArgs,
	}
	file := configFlag(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := load(*file)
		if err != nil {
			return err
		}
		plan, err := daemon.Check(c)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), plan)
		}
		return printPlan(cmd.OutOrStdout(), plan)
	}
	return cmd
}

func printPlan(out io.Writer, p *daemon.Plan) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	source := p.Config
	if source == "" {
		source = "built in"
	}
	row("configuration\t%s", source)
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
	row("freshness\t%s", p.Freshness)
	row("RPC\tbuilt-in methods\topen to every peer")
	for _, s := range p.Servers {
		note := ""
		if s.Default {
			note = ", the default"
		}
		row("MCP server\t%s\topen to %s%s", s.Name, s.Allowed, note)
		row("\t%s\t%d arguments; environment: PATH %s", s.Command, s.Args, strings.Join(s.Env, " "))
	}
	for _, warning := range p.Warnings {
		row("warning\t%s", warning)
	}
	return w.Flush()
}

func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
