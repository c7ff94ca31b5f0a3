package command

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/daemon"
)

func newReload() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make a running swpd reload its configuration and files",
		Long: `Have the swpd on this machine, through its admin listener, read its configuration
and the files that it names again, and say what came of it. Most keys are taken up:
certificates, access rules, partners, MCP servers, workers, agents, teams, RPC back
ends, cards and tools, credentials, A2A-SDL, SLIP, callers over HTTP, quotas, the
log, and limits, which hold for new connections. docs/configuration.md has the list.

Requests and tasks that are under way end where they began; new ones go to what the
configuration names now, or are refused. Peers that are not let in any more are
disconnected. Each section is taken up as a whole or not at all: unusable parts are
reported, and the old ones stay in force. What takes effect at the next start only
is named.

SIGHUP does the same without an answer, and a changed file is read within two
seconds without being asked for.

Exit codes: 0, all of the file is in force; 1, something could not be used, or
swpd could not be asked; 4, something waits for the next start.`,
		Example: `  swpd reload
  swpd reload --config swpd.yaml
  swpd reload --admin 127.0.0.1:7790 --json`,
	}
	file := configFlag(cmd)
	at := cmd.Flags().String("admin", "", "`address` of the admin listener, default as configured")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		admin, err := adminAddress(*at, *file)
		if err != nil {
			return err
		}
		var result daemon.Reloaded
		if err := ask(admin, http.MethodPost, "/reload", &result); err != nil {
			return err
		}
		if *asJSON {
			if err := printJSON(cmd.OutOrStdout(), result); err != nil {
				return err
			}
		} else {
			changed := "nothing new; a changed file is taken up by itself within two seconds"
			if len(result.Changed) > 0 {
				changed = "taken up: " + strings.Join(result.Changed, ", ")
			}
			_, _ = fmt.Fprintln(cmd.OutOrStdout(), changed)
		}
		return shortOf(&result)
	}
	return cmd
}

// shortOf says where what is in force is not what the files say.
func shortOf(r *daemon.Reloaded) error {
	var later error
	if len(r.Later) > 0 {
		later = &exitError{exitLater, fmt.Errorf("in force at the next start: %s", strings.Join(r.Later, ", "))}
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
