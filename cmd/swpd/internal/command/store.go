package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon"
	"github.com/slimwire/swp/internal/plain"
)

func newStore() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "List and change stored data; export, import and copy the store",
		Long: `List the stored data of a running swpd, and change it: retry, refuse and drop deliveries, cancel
tasks, delete artifacts, states and cursors.

Export writes the content of the store to a file, import makes a store from such a file, and copy
makes one from another store. The file has everything in the store and all artifacts: tasks,
outcomes, events, deliveries, states, credentials and keys of the endpoint. Keep it as secret as
the data directory. It does not depend on the kind of the store. It has neither the audit trail
nor the certificates.`,
		Example: `  swpd store topics
  swpd store dead --name "orders/**" --state rejected
  swpd store dead retry spiffe://example.org/agents/planner 6f72646572
  swpd store export --config swpd.yaml --to store.swp
  swpd store import --config new.yaml store.swp
  swpd store export --config swpd.yaml | ssh backup.example 'cat > store.swp'
  swpd store copy --from swpd.yaml --to shared.yaml`,
	}
	for _, kind := range daemon.StoredKinds() {
		cmd.AddCommand(newStored(kind))
	}
	cmd.AddCommand(newStoreExport(), newStoreImport(), newStoreCopy(), newStoreDigest())
	return cmd
}

func newStoreExport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the content of the store to a file",
		Long: `Write the content of the store and its artifacts to a new file, or to standard output.
swpd must not run: while it does, the command fails and changes nothing. Damage ends the
export. What has expired is left out. Versions, the numbers of logs, remembered ids and
leases are included, and times of expiry.

The summary is on standard output, with --to - on standard error. It names the data directory,
and counts uploads in progress as artifacts.`,
		Example: `  swpd store export --config swpd.yaml --to store.swp
  swpd store export --config swpd.yaml --to - | gzip > store.swp.gz`,
		Args: cobra.NoArgs,
	}
	file := configFlag(cmd)
	to := cmd.Flags().String("to", "-", "new `file` to write, or - for standard output")
	asJSON := cmd.Flags().Bool("json", false, "print the summary as JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := load(cmd, *file, theStore())
		if err != nil {
			return err
		}
		t := daemon.Transfer{Config: c, Log: cmd.ErrOrStderr(), Progress: progress(cmd.ErrOrStderr(), "exported")}
		out, told := cmd.OutOrStdout(), cmd.OutOrStdout()
		if *to == "-" {
			if f, is := out.(*os.File); is && term.IsTerminal(int(f.Fd())) {
				return cli.Usagef("store export: an export is not text; name a file with --to, or redirect the output")
			}
			told = cmd.ErrOrStderr()
		}
		n, err := exportTo(cmd.Context(), t, *to, out)
		if err != nil {
			return err
		}
		return printTransferred(told, n, fmt.Sprintf("exported %s to %s", c.Data, named(*to, "standard output")), *asJSON)
	}
	return cmd
}

// exportTo writes an export to a new file, which it removes after an error, or to out.
func exportTo(ctx context.Context, t daemon.Transfer, name string, out io.Writer) (n daemon.Transferred, err error) {
	if name == "-" {
		return t.Export(ctx, out)
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return n, cli.Usagef("store export: %s exists, and is not overwritten; name another file", name)
	}
	if err != nil {
		return n, cli.Unreadable(err)
	}
	n, err = t.Export(ctx, file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		err = errors.Join(err, os.Remove(name))
	}
	return n, err
}

func newStoreImport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Make a store from an export",
		Long: `Make the store and the artifacts of a configuration from a file that swpd store export has
written, or from standard input. The data directory must have neither. A file that was
changed or cut is refused, and the message says where. After an error there is no store.

Expiries and leases continue as if swpd had been stopped at the export and started at the
import. Quotas are not applied to what is imported.`,
		Example: `  swpd store import --config swpd.yaml store.swp
  gunzip < store.swp.gz | swpd store import --config swpd.yaml -`,
		Args: cobra.ExactArgs(1),
	}
	file := configFlag(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print the summary as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return importStore(cmd, *file, args[0], "store import", "imported to ", *asJSON)
	}
	return cmd
}

// importStore makes the store of a configuration from a file, or from standard input.
func importStore(cmd *cobra.Command, config, name, command, told string, asJSON bool) error {
	c, err := load(cmd, config, theStore())
	if err != nil {
		return err
	}
	var from io.ReadCloser
	if name == "-" {
		from = io.NopCloser(cmd.InOrStdin())
	} else if from, err = cli.Open(name); err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // it is read
	t := daemon.Transfer{Config: c, Log: cmd.ErrOrStderr(), Progress: progress(cmd.ErrOrStderr(), strings.TrimSuffix(told, " to "))}
	n, err := t.Import(cmd.Context(), from)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", command, named(name, "standard input"), err)
	}
	return printTransferred(cmd.OutOrStdout(), n, told+c.Data, asJSON)
}

func named(file, stream string) string {
	if file == "-" {
		return stream
	}
	return file
}

func printTransferred(out io.Writer, n daemon.Transferred, where string, asJSON bool) error {
	if asJSON {
		return printJSONLine(out, n)
	}
	_, err := fmt.Fprintf(out, "%s: %s, %s with %s, %s, %s; %s\n", where, plain.Count(n.Records, "record"), plain.Count(n.Logs, "log"),
		plain.Count(n.Entries, "stored entry"), plain.Count(n.Items, "item"), plain.Count(n.Artifacts, "artifact"), plain.Count(n.Bytes, "octet"))
	return err
}

// progressEvery is the time between two lines of progress.
const progressEvery = 5 * time.Second

// progress returns a function that prints how far a transfer is, after progressEvery and so often.
func progress(out io.Writer, what string) func(daemon.Transferred) {
	next := time.Now().Add(progressEvery)
	return func(n daemon.Transferred) {
		if now := time.Now(); now.After(next) {
			next = now.Add(progressEvery)
			all := n.Records + n.Logs + n.Entries + n.Items + n.Artifacts
			_, _ = fmt.Fprintf(out, "swpd: %s %s, %s so far\n", what, plain.Count(all, "piece"), plain.Count(n.Bytes, "octet"))
		}
	}
}
