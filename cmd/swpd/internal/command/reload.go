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
		Short: "Have a running swpd read certificates, rules, cards, keys and partners again",
		Long: `Have the swpd on this machine, through its admin listener, read again and say
what came of it: certificates, trust, access rules, partners, the files of agent
cards, and those of cred (keys of issuers, digests of opaque credentials). Peers
that are not let in any more are disconnected. What cannot be used is reported, the exit code is 1,
and what was in force stays so. SIGHUP does the same without an answer, and a
changed file is read within two seconds without being asked for.`,
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
		}
		if len(result.Problems) > 0 {
			return errors.New(strings.Join(result.Problems, "\n"))
		}
		if *asJSON {
			return nil
		}
		_, _ = fmt.Fprintln(cmd.OutOrStdout(), "certificates, trust, access rules, partners, agent cards and keys of credentials were read again")
		if len(result.Later) > 0 {
			_, _ = fmt.Fprintf(cmd.OutOrStdout(), "changed too, and in force at the next start: %s\n", strings.Join(result.Later, ", "))
		}
		return nil
	}
	return cmd
}
