package command

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/daemon"
)

func newReload() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make a running swpd reload its configuration and files",
		Long: `Make the swpd on this machine, through the socket in its data directory, read its configuration and
its files again, and print the result. Most keys take effect: certificates, access
rules, partners, MCP servers, workers, agents, teams, RPC back ends, cards and tools,
credentials, A2A-SDL, SLIP, callers over HTTP, quotas, the log, and limits, which apply
to new connections. docs/configuration.md has the list.

Requests and tasks in progress end where they started; new ones use the new
configuration, or are refused. Peers that are no longer admitted are disconnected. Each
section takes effect as a whole or not at all: faulty sections are reported, and their
old values stay in force. Keys that take effect only at the next start are listed with the reason.

SIGHUP does the same without an answer. Changed files are read within two seconds
without a request.

Exit codes: 0, the whole file is in force; 1, a section is faulty, or swpd could not be
reached; 4, a key takes effect at the next start.`,
		Example: `  swpd reload
  swpd reload --config swpd.yaml
  swpd reload --admin 127.0.0.1:7790 --token-file alice.token --json`,
	}
	file := configFlag(cmd)
	at := serverFlags(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		admin, err := askActive(at, *file)
		if err != nil {
			return err
		}
		var result daemon.Reloaded
		if err := admin.ask(http.MethodPost, "/reload", &result); err != nil {
			return err
		}
		if *asJSON {
			if err := printJSON(cmd.OutOrStdout(), result); err != nil {
				return err
			}
		} else {
			printReloaded(cmd.OutOrStdout(), &result)
		}
		return shortOf(&result)
	}
	return cmd
}

// printReloaded prints what is in force now. If that is nothing new because of what shortOf
// says, it prints nothing.
func printReloaded(out io.Writer, r *daemon.Reloaded) {
	switch {
	case len(r.Changed) > 0:
		var parts []string
		tell := func(what string, keys []string) {
			if len(keys) > 0 {
				parts = append(parts, what+" "+strings.Join(keys, ", "))
			}
		}
		tell("added", r.Added)
		tell("removed", r.Removed)
		tell("changed", slices.DeleteFunc(slices.Clone(r.Changed), func(key string) bool {
			return slices.Contains(r.Added, key) || slices.Contains(r.Removed, key)
		}))
		_, _ = fmt.Fprintf(out, "taken up: %s\n", strings.Join(parts, "; "))
	case shortOf(r) == nil:
		_, _ = fmt.Fprintln(out, "nothing new; a changed file is taken up by itself within two seconds")
	}
}

// shortOf says where what is in force is not what the files say.
func shortOf(r *daemon.Reloaded) error {
	var later error
	if len(r.Later) > 0 {
		lines := make([]string, len(r.Later))
		for i, key := range r.Later {
			lines[i] = key + " takes effect at the next start: " + r.Reasons[key]
		}
		later = &exitError{exitLater, errors.New(strings.Join(lines, "\n"))}
	}
	if len(r.Problems) == 0 {
		return later
	}
	problems := errors.New(strings.Join(r.Problems, "\n"))
	if later != nil {
		problems = fmt.Errorf("%w\n%v", problems, later)
	}
	return problems
}
