package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
)

func newInit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make certificates and a commented configuration",
		Long: `Make a directory that swpd can run from: swpd.yaml with every key commented, and
pki/ with an authority, a certificate for the server and one for swp-client.
Nothing is overwritten. The authority is for development: its key lies beside the
certificates. In production name certificates of your own in swpd.yaml.`,
		Example: `  swpd init
  swpd init --dir edge --name spiffe://example.org/edge
  swpd init --dir edge --host edge.example.org --host 192.0.2.7`,
		Args: cobra.NoArgs,
	}
	dir := cmd.Flags().String("dir", ".", "`directory` to make it in")
	name := cmd.Flags().String("name", devpki.DefaultName, "identity of the server, a `URI` such as spiffe://example.org/edge")
	hosts := cmd.Flags().StringArray("host", nil, "DNS `name` or IP address that the certificate is valid for too; repeatable")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		file := filepath.Join(*dir, "swpd.yaml")
		if _, err := os.Lstat(file); err == nil {
			return &exitError{exitUsage, fmt.Errorf("%s exists already; choose another --dir or remove it", file)}
		}
		pki := filepath.Join(*dir, "pki")
		switch err := devpki.Create(pki, devpki.Options{Name: *name, Hosts: *hosts}); {
		case errors.Is(err, fs.ErrExist):
			return &exitError{exitUsage, fmt.Errorf("%w; choose another --dir or remove it", err)}
		case err != nil:
			return err
		}
		if err := os.WriteFile(file, config.Template(*name), 0o600); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(cmd.OutOrStdout(), `made %s
made %s with the identity %s

next:
  swpd check --config %[1]s
  swpd run --config %[1]s
  swp-client --identity %[2]s ping swp+tls://127.0.0.1:7777
`, file, pki, *name)
		return nil
	}
	return cmd
}
