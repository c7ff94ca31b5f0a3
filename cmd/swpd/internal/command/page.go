package command

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/daemon"
)

func newPage() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "page",
		Short: "Print an address that opens the page of a running swpd",
		Long: `Print an address of the page of the swpd on this machine, for a browser here. It is valid
once, within a minute, and begins a session of 12 hours, which ends after 30 minutes
without a request. From another machine forward the port of the address first:
ssh -L 7780:127.0.0.1:7780 HOST.`,
		Example: `  swpd page
  swpd page --config swpd.yaml
  xdg-open "$(swpd page --config swpd.yaml)"`,
		Args: cobra.NoArgs,
	}
	file := configFlag(cmd)
	at := serverFlags(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print JSON: {\"url\": …}")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		admin, err := askActive(at, *file)
		if err != nil {
			return err
		}
		var to daemon.PageAddress
		if err := admin.ask(http.MethodPost, "/session", &to); err != nil {
			return err
		}
		url := "http://" + cmp.Or(to.Address, admin.at) + to.Path
		if *asJSON {
			return printJSONLine(cmd.OutOrStdout(), struct {
				URL string `json:"url"`
			}{url})
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), url)
		return err
	}
	return cmd
}
