package command

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon"
)

func newStoreCopy() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "copy",
		Short: "Copy the store to another place or kind of store",
		Long: `Copy everything in the store of one configuration, and all artifacts, to the store of another one:
from a data directory to PostgreSQL, back, or to another data directory. The second store must not
exist, and swpd must run on neither. At the end the copy is read again, and the command fails
if its SHA-256 differs from that of the source.

After an error there is no copy, or swpd refuses to start on it; the message says what to remove
before the next attempt. The source does not change. Quotas are not applied. The audit trail and
certificates are not copied.`,
		Example: `  swpd store copy --from embedded.yaml --to shared.yaml
  swpd store copy --from shared.yaml --to embedded.yaml --json`,
		Args: cobra.NoArgs,
	}
	from := cmd.Flags().String("from", "", "configuration `file` of the store to copy")
	to := cmd.Flags().String("to", "", "configuration `file` of the new store")
	asJSON := cmd.Flags().Bool("json", false, "print the summary as JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *from == "" || *to == "" {
			return cli.Usagef("store copy: --from and --to name the configurations of both stores")
		}
		source, err := load(cmd, *from, theStore())
		if err != nil {
			return err
		}
		target, err := load(cmd, *to, theStore())
		if err != nil {
			return err
		}
		out := cmd.ErrOrStderr()
		n, err := (&daemon.Copy{
			From: source, To: target, Log: out, Progress: progress(out, "copied"), Verifying: progress(out, "verified"),
		}).Run(cmd.Context())
		if err != nil {
			return fmt.Errorf("store copy: %w", err)
		}
		if *asJSON {
			return printJSONLine(cmd.OutOrStdout(), n)
		}
		if err := printTransferred(cmd.OutOrStdout(), n.Transferred, fmt.Sprintf("copied %s to %s", n.From, n.Data), false); err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "SHA-256 of both: %s\n", n.Digest)
		return err
	}
	return cmd
}

func newStoreDigest() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "digest",
		Short: "Print the SHA-256 of the content of the store",
		Long: `Print the SHA-256 of everything in the store and of all artifacts, and of each part. It does not
depend on the kind of the store: a copy has the same one. It has neither clocks nor counters, and nothing
that has expired, so it changes when something expires. swpd must not run.`,
		Example: `  swpd store digest --config swpd.yaml`,
		Args:    cobra.NoArgs,
	}
	file := configFlag(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print the digests as JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := load(cmd, *file, theStore())
		if err != nil {
			return err
		}
		t := daemon.Transfer{Config: c, Log: cmd.ErrOrStderr(), Progress: progress(cmd.ErrOrStderr(), "read")}
		d, err := t.Digest(cmd.Context())
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSONLine(cmd.OutOrStdout(), d)
		}
		out := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		for _, p := range d.Parts {
			_, _ = fmt.Fprintf(out, "%s\t%d\t%s\n", p.Digest, p.Pieces, p.Name) // Flush returns the error
		}
		_, _ = fmt.Fprintf(out, "%s\t\teverything in %s\n", d.Digest, d.Data)
		return out.Flush()
	}
	return cmd
}
