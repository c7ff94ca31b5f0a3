package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/internal/audit"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles"
)

func newAudit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Verify and search the audit trail",
		Long: `Read the audit trail: a record of each exchange that peers opened, allowed or denied.
All commands work beside a running swpd and without one. DIR is the directory of the
trail, by default audit in the data directory of the configuration. verify-sdl reads the
audit chain of A2A-SDL instead, which is a file of its own.`,
		Example: `  swpd audit verify --config swpd.yaml
  swpd audit verify-sdl --config swpd.yaml --signed
  swpd audit find --config swpd.yaml --identity spiffe://acme.example/swpd --outcome denied
  swpd audit tail -f
  swpd audit prove 17 --config swpd.yaml --to exchange.json`,
	}
	cmd.AddCommand(newAuditVerify(), newAuditVerifySDL(), newAuditFind(), newAuditTail(), newAuditExport(), newAuditProve())
	return cmd
}

// trailDir is the directory that an argument or the configuration names.
func trailDir(cmd *cobra.Command, args []string, file string) (string, error) {
	dir := ""
	if len(args) > 0 {
		dir = args[0]
	} else {
		c, err := load(cmd, file, theTrail())
		if err != nil {
			return "", err
		}
		dir = c.AuditDir()
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", &exitError{exitUsage, fmt.Errorf("audit: there is no trail in %s; name the directory, or the configuration with --config (audit.exchanges may be off)", dir)}
	}
	return dir, nil
}

func newAuditVerify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [DIR]",
		Short: "Say whether a trail is as it was written",
		Long: `Recompute the chain of hashes through all records of a trail and verify its
checkpoints, which the key of the endpoint has signed. Each record that was changed,
removed, added or moved is named, and up to which record nothing else can have been:
what comes behind the last checkpoint is not proven yet. A checkpoint counts if an
authority vouches for its certificate: those of --ca, else trust.ca of the configuration;
and if it is of the identity that --identity names, else of the one in a --ca file that
swpd cert bundle has printed, else of the identity of the configuration. What the trail
says of its own identity proves nothing. The exit code is 1 if there is a fault.`,
		Example: `  swpd audit verify --config swpd.yaml
  swpd audit verify --ca pki/ca.crt --identity spiffe://acme.example/swpd /backup/audit
  swpd audit verify --part --ca partners/acme.pem exported --json`,
		Args: cobra.MaximumNArgs(1),
	}
	file := configFlag(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print JSON: each fault on a line, then the result")
	ca := cmd.Flags().StringArray("ca", nil, "PEM `file` with authorities of the endpoint, such as that of swpd cert bundle; repeatable")
	identity := cmd.Flags().String("identity", "", "`identity` that must have signed")
	part := cmd.Flags().Bool("part", false, "DIR is from swpd audit export: it may begin and end anywhere")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := trailDir(cmd, args, *file)
		if err != nil {
			return err
		}
		signer := auditSigner{file: *file, identity: *identity, ca: *ca, part: *part, dir: dir}
		trust, err := signer.trust(cmd)
		if err != nil {
			return err
		}
		return verifyTrail(cmd.Context(), cmd.OutOrStdout(), audit.Verification{Dir: dir, Trust: trust, Part: *part}, *asJSON)
	}
	return cmd
}

func verifyTrail(ctx context.Context, out io.Writer, o audit.Verification, asJSON bool) error {
	var failed error
	o.Found = func(f audit.Finding) {
		if failed != nil {
			return
		}
		if asJSON {
			failed = printJSONLine(out, f)
			return
		}
		_, failed = fmt.Fprintf(out, "%08d.jsonl:%d: %s\n", f.Segment, f.Line, cli.Field(f.Text))
	}
	r, err := audit.Verify(ctx, o)
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if asJSON {
		err = printJSONLine(out, r)
	} else {
		err = printVerified(out, &r)
	}
	switch {
	case err != nil:
		return err
	case r.Faults > 0:
		return fmt.Errorf("audit: faults: %d, in %s", r.Faults, o.Dir)
	}
	return nil
}

func printVerified(out io.Writer, r *audit.Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(title, format string, args ...any) { _, _ = fmt.Fprintf(w, title+"\t"+format+"\n", args...) }
	row("records", "%d, from %d to %d, in %s", r.Records, r.First, r.Last, plain.Count(r.Segments, "segment"))
	row("faults", "%d", r.Faults)
	switch {
	case r.Proven == 0:
		row("proven", "nothing: no checkpoint is good")
	default:
		row("proven", "up to record %d, signed %s", r.Proven, r.ProvenAt.UTC().Format(time.RFC3339))
	}
	if rest := r.Last - r.Proven; rest > 0 {
		row("not proven", "%s behind it; a running swpd signs once a minute", plain.Count(rest, "record"))
	}
	return w.Flush()
}

// period is the time that --since and --until say.
type period struct{ since, until string }

func (p *period) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.since, "since", "", "`time` (RFC 3339), or a duration until now such as 2h; default: from the beginning")
	cmd.Flags().StringVar(&p.until, "until", "", "`time` (RFC 3339), or a duration until now; default: now")
}

func (p *period) read(now time.Time) (from, to time.Time, err error) {
	if from, err = moment("since", p.since, now, time.Time{}); err == nil {
		to, err = moment("until", p.until, now, now)
	}
	if err == nil && to.Before(from) {
		err = cli.Usagef("--since %s is not before --until %s", p.since, cmp.Or(p.until, "now"))
	}
	return from, to, err
}

// moment reads a time, or how long it is ago.
func moment(flag, text string, now, otherwise time.Time) (time.Time, error) {
	if text == "" {
		return otherwise, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, &exitError{exitUsage, fmt.Errorf("--%s: %q is neither a time such as 2026-11-23T08:00:00Z nor a duration such as 2h", flag, text)}
	}
	return at, nil
}

// entryPrinter prints a line for each exchange.
type entryPrinter struct {
	out    io.Writer
	asJSON bool
	n      int // printed
}

func (p *entryPrinter) print(e *audit.Entry) error {
	p.n++
	if p.asJSON {
		_, err := fmt.Fprintf(p.out, "%s\n", e.Line)
		return err
	}
	name, outcome := e.Name, e.Outcome
	switch {
	case e.Finding():
		_, err := fmt.Fprintf(p.out, "%d  %s  %s  %s  %s: %s\n", e.Sequence, at(e), cli.Field(e.Identity), cli.Field(outcome), aboutRecord(e), cli.Field(e.Reason))
		return err
	case e.Sent():
		name = "sent to " + e.Partner
	case e.Partner != "":
		name += " at " + e.Partner
	}
	switch {
	case e.Begins():
		outcome = "goes on"
	case e.Times > 0:
		outcome = fmt.Sprintf("%s %d times", outcome, e.Times)
	}
	who := e.Identity + e.Other
	if e.For != "" {
		who = profiles.OnBehalf(who, e.For)
	}
	_, err := fmt.Fprintf(p.out, "%d  %s  %s  %s  %s  %s  %s  %s  %d/%d octets\n", e.Sequence, at(e), cli.Field(who),
		cli.Field(strings.TrimSpace(e.Profile+" "+e.Operation)), orDash(cli.Field(name)), cli.Field(outcome), orDash(e.Rule), e.Took.Round(time.Microsecond), e.In, e.Out)
	return err
}

func at(e *audit.Entry) string { return e.Time.UTC().Format("2006-01-02T15:04:05.000Z") }

// aboutRecord names the record or the tool that a finding is about.
func aboutRecord(e *audit.Entry) string {
	switch {
	case e.Name != "":
		return "tool " + cli.Field(e.Name) + " of " + cli.Field(e.Partner)
	case e.Of == 0:
		return "a receipt"
	}
	return fmt.Sprintf("record %d", e.Of)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func newAuditTail() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tail [DIR]",
		Short: "Print the latest records, and those to come",
		Example: `  swpd audit tail --config swpd.yaml
  swpd audit tail -f --json --config swpd.yaml`,
		Args: cobra.MaximumNArgs(1),
	}
	file := configFlag(cmd)
	n := cmd.Flags().IntP("lines", "n", 10, "how many exchanges")
	follow := cmd.Flags().BoolP("follow", "f", false, "go on until it is interrupted")
	asJSON := cmd.Flags().Bool("json", false, "print the records as they stand in the trail")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := trailDir(cmd, args, *file)
		if err != nil {
			return err
		}
		if *n < 0 || *n > 1_000_000 {
			return &exitError{exitUsage, fmt.Errorf("--lines %d, want 0 to 1000000", *n)}
		}
		if *follow {
			cli.UntilStopped(cmd)
		}
		p := &entryPrinter{out: cmd.OutOrStdout(), asJSON: *asJSON}
		if err := tailTrail(cmd.Context(), p, dir, *n, *follow); err != nil || p.n > 0 || *n == 0 {
			return err
		}
		_, err = fmt.Fprintln(cmd.ErrOrStderr(), "swpd: the trail has no exchange")
		return err
	}
	return cmd
}

// tailTrail prints the last n exchanges, and then what comes.
func tailTrail(ctx context.Context, p *entryPrinter, dir string, n int, follow bool) error {
	var last []*audit.Entry
	var after uint64
	for e, err := range audit.Entries(ctx, dir, false) {
		if err != nil {
			return err
		}
		after = e.Sequence
		if !e.Exchange() || n == 0 {
			continue
		}
		kept := *e
		kept.Line = append([]byte(nil), e.Line...)
		if last = append(last, &kept); len(last) > n {
			last = last[1:]
		}
	}
	for _, e := range last {
		if err := p.print(e); err != nil {
			return err
		}
	}
	if !follow {
		return nil
	}
	for e, err := range audit.Entries(ctx, dir, true) {
		if err != nil {
			return err
		}
		if e.Exchange() && e.Sequence > after {
			if err := p.print(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func newAuditExport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export --to DIR [FROM]",
		Short: "Copy the part of a trail that covers some time",
		Long: `Copy the segments of a trail that have records of some time into an empty directory,
whole, so that whoever gets them can verify them with swpd audit verify --part. They hold
the names and identities of all exchanges of these segments, and no payloads.`,
		Example: `  swpd audit export --config swpd.yaml --since 24h --to /tmp/yesterday
  swpd audit verify --part --ca ca.crt --identity spiffe://acme.example/swpd /tmp/yesterday`,
		Args: cobra.MaximumNArgs(1),
	}
	file := configFlag(cmd)
	to := cmd.Flags().String("to", "", "`directory` to copy to, which is made")
	var when period
	when.flags(cmd)
	_ = cmd.MarkFlagRequired("to")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := trailDir(cmd, args, *file)
		if err != nil {
			return err
		}
		from, end, err := when.read(time.Now())
		if err != nil {
			return err
		}
		n, err := audit.Export(cmd.Context(), dir, *to, from, end)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("audit: no segment of %s has records of that time", dir)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s copied to %s\n", plain.Count(n, "segment"), *to)
		return err
	}
	return cmd
}

func newAuditProve() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prove EXCHANGE [DIR]",
		Short: "Write a proof of what was asked and answered at a partner",
		Long: `Write what the partner has signed about an exchange to a file: the digests of the request
and of the answer, its receipt, and its certificates. EXCHANGE is the number of the record,
as swpd audit find prints it: that of an exchange which this endpoint has opened at the
partner (--action exchange-sent), or the partner here. swp-client audit check verifies the
file with nothing but the authority of the partner. The file has no payload, and tells
nothing of other exchanges. It needs audit.receipts at both ends.`,
		Example: `  swpd audit find --config swpd.yaml --action exchange-sent --partner acme --since 1h
  swpd audit prove 17 --config swpd.yaml --to exchange.json
  swp-client audit check exchange.json --ca acme-ca.crt`,
		Args: cobra.RangeArgs(1, 2),
	}
	file := configFlag(cmd)
	to := cmd.Flags().String("to", "", "`file` to write; default standard output")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		sequence, err := strconv.ParseUint(args[0], 10, 64)
		if err != nil {
			return cli.Usagef("EXCHANGE %q is not the number of a record", args[0])
		}
		dir, err := trailDir(cmd, args[1:], *file)
		if err != nil {
			return err
		}
		p, err := audit.Prove(cmd.Context(), dir, sequence)
		if err != nil {
			return err
		}
		octets, err := p.Octets()
		if err != nil {
			return err
		}
		if *to == "" {
			_, err = cmd.OutOrStdout().Write(octets)
			return err
		}
		if err := os.WriteFile(*to, octets, 0o600); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s has %s it, signed %s\n", *to, p.Signer, p.Side, p.SignedAt.Format(time.RFC3339))
		return err
	}
	return cmd
}
