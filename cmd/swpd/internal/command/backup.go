package command

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/disk"
)

// Files of a backup in a directory.
const (
	backupFile = "backup.swp"
	digestExt  = ".sha256"
)

func newBackup() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup DIR|-",
		Short: "Copy the store while swpd runs",
		Long: `Copy the content of the store and all artifacts to backup.swp in a directory, with the
SHA-256 in backup.swp.sha256, or to standard output. Everything that was acknowledged before
the command began is in it. swpd goes on serving; its database grows until the backup ends.
If swpd does not run, the store is read directly.

The command reads a token in the data directory, so it is for accounts that can read that
directory. A backup contains credentials and keys: keep it as secret as the data directory.
It has neither the audit trail nor the certificates nor the configuration. Make one before an
upgrade: an earlier release cannot read what a later one has written.`,
		Example: `  swpd backup --config swpd.yaml /var/backups/swpd/monday
  swpd backup --config swpd.yaml - | ssh backup.example 'cat > store.swp'`,
		Args: cobra.ExactArgs(1),
	}
	file := configFlag(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print the summary as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := load(cmd, *file, theStore())
		if err != nil {
			return err
		}
		b := &backup{conf: c, config: *file, log: cmd.ErrOrStderr()}
		if args[0] == "-" {
			out := cmd.OutOrStdout()
			if f, is := out.(*os.File); is && term.IsTerminal(int(f.Fd())) {
				return cli.Usagef("backup: a backup is not text; name a directory, or redirect the output")
			}
			if err := b.write(cmd.Context(), out); err != nil {
				return err
			}
			return b.print(cmd.ErrOrStderr(), "standard output", *asJSON)
		}
		if err := b.writeTo(cmd.Context(), args[0]); err != nil {
			return err
		}
		return b.print(cmd.OutOrStdout(), args[0], *asJSON)
	}
	return cmd
}

// backup is a backup in progress.
type backup struct {
	conf   *config.Config
	config string
	log    io.Writer

	done   daemon.Transferred
	digest string
}

func (b *backup) print(out io.Writer, to string, asJSON bool) error {
	if asJSON {
		return printJSONLine(out, struct {
			daemon.Transferred
			SHA256 string `json:"sha256"`
		}{b.done, b.digest})
	}
	return printTransferred(out, b.done, "backed up to "+to+", SHA-256 "+b.digest, false)
}

// writeTo makes the files of a backup in a directory. After an error no file stays.
func (b *backup) writeTo(ctx context.Context, dir string) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return cli.Unreadable(err)
	}
	name := filepath.Join(dir, backupFile)
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return cli.Usagef("backup: %s exists; name another directory", name)
	}
	if err != nil {
		return cli.Unreadable(err)
	}
	err = b.write(ctx, file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = disk.Replace(name+digestExt, []byte(b.digest+"  "+backupFile+"\n"), nil)
	}
	if err != nil {
		_ = os.Remove(name + digestExt) // it may not be there
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// write writes a backup of the swpd that runs with the configuration, or of its store if none
// runs.
func (b *backup) write(ctx context.Context, to io.Writer) error {
	sum := sha256.New()
	to = io.MultiWriter(to, sum)
	err := b.ask(ctx, to)
	if errors.Is(err, errNotRunning) {
		_, _ = fmt.Fprintln(b.log, "swpd: no swpd can be asked, so the store is read directly")
		t := daemon.Transfer{Config: b.conf, Log: b.log, Progress: progress(b.log, "backed up")}
		b.done, err = t.Export(ctx, to)
		b.digest = hex.EncodeToString(sum.Sum(nil))
		return err
	}
	if err != nil {
		return err
	}
	if own := hex.EncodeToString(sum.Sum(nil)); own != b.digest {
		return fmt.Errorf("the backup was damaged on its way: SHA-256 %s, and swpd says %s", own, b.digest)
	}
	return nil
}

// errNotRunning: no swpd can be asked.
var errNotRunning = errors.New("swpd does not run")

// ask has the running swpd write a backup.
func (b *backup) ask(ctx context.Context, to io.Writer) error {
	if b.conf.Admin.Address == config.AdminOff {
		return errNotRunning // if it does, its store is in use
	}
	admin, err := askActive(new(server), b.config)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errNotRunning
	case err != nil:
		return err
	}
	token, err := admin.operatorToken("")
	if err != nil {
		return err
	}
	resp, err := admin.request(ctx, http.MethodPost, "/backup", token, http.NoBody)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // the status says enough
		return errors.New(cmp.Or(strings.TrimSpace(string(text)), resp.Status))
	}
	if _, err := io.Copy(to, resp.Body); err != nil {
		if _, written := errors.AsType[*fs.PathError](err); written {
			return fmt.Errorf("the backup is not complete: %w", err)
		}
		return fmt.Errorf("the backup is not complete, the log of swpd says why: %w", err)
	}
	b.digest = resp.Trailer.Get(daemon.HeaderDigest)
	return json.Unmarshal([]byte(resp.Trailer.Get(daemon.HeaderSummary)), &b.done)
}

func newRestore() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore DIR|FILE|-",
		Short: "Make the store of a backup",
		Long: `Make the store and the artifacts of a configuration from a backup: a directory or a file
of swpd backup, or standard input. The data directory must have neither. The SHA-256 of the
backup is compared before, and each record has a checksum. backup.swp.sha256 must be in a
directory; beside a file it may be missing. After an error there is no store.

Expiries and leases continue as if swpd had been stopped at the backup and started at the
restore. A backup of an earlier release is restored, one of a later release is refused.`,
		Example: `  swpd restore --config swpd.yaml /var/backups/swpd/monday
  ssh backup.example 'cat store.swp' | swpd restore --config swpd.yaml -`,
		Args: cobra.ExactArgs(1),
	}
	file := configFlag(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print the summary as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := args[0]
		info, err := os.Stat(name)
		directory := name != "-" && err == nil && info.IsDir()
		if directory {
			name = filepath.Join(name, backupFile)
		}
		if name != "-" {
			if err := compare(name, directory); err != nil {
				return err
			}
		}
		return importStore(cmd, *file, name, "restore", "restored to ", *asJSON)
	}
	return cmd
}

// compare refuses a backup that has another SHA-256 than the file beside it says. needed
// requires that file.
func compare(name string, needed bool) error {
	text, err := os.ReadFile(name + digestExt)
	if errors.Is(err, fs.ErrNotExist) && !needed {
		return nil
	}
	f, openErr := cli.Open(name)
	if openErr != nil {
		return openErr
	}
	defer func() { _ = f.Close() }() // it is read
	if errors.Is(err, fs.ErrNotExist) {
		return cli.Usagef("%s is missing, so %s cannot be compared with it; name that file in place of the directory to restore it all the same", name+digestExt, name)
	}
	if err != nil {
		return cli.Unreadable(err)
	}
	want, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if sum, err := hex.DecodeString(want); err != nil || len(sum) != sha256.Size {
		return cli.Usagef("%s does not begin with a SHA-256, so %s cannot be compared with it; nothing was restored", name+digestExt, name)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return &exitError{exitFailed, fmt.Errorf("%s was damaged or changed: its SHA-256 is %s, and %s says %.64s; nothing was restored", name, got, name+digestExt, want)}
	}
	return nil
}

// readData reads the whole store of a configuration and counts its content. Damage is an error
// that names the damaged item.
func readData(ctx context.Context, c *config.Config, log io.Writer) (daemon.Transferred, error) {
	t := daemon.Transfer{Config: c, Log: log, Progress: progress(log, "read")}
	return t.Export(ctx, io.Discard)
}
