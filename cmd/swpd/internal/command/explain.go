package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/config"
)

// maxLogLine is the longest line of a log that is read; swpd writes none over 8 KiB.
const maxLogLine = 64 << 10

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [LINE]...",
		Short: "Explain denials in lines of the log",
		Long: `Read lines of the log of swpd, in JSON or as text, from the arguments or else from
standard input. For each denial print the identity and the request, the rule that denied
it or the lack of a rule, and the entry that would allow this request and nothing else.
For a refusal by a partner print the question for the partner's operator, and for a
refused certificate the reason and the remedy in the line. Other lines are ignored.

The rules are those of --config; without it those of the swpd that runs with the default
data directory, or with swpd.yaml in the working directory. The built-in configuration is used only if that swpd runs with it.
The rules may have changed since the line was written. The exit code is 1 if no line is about a denial.`,
		Example: `  grep denied swpd.log | swpd explain --config swpd.yaml
  grep denied swpd.log | swpd explain
  journalctl -u swpd -o cat | swpd explain --config swpd.yaml --json
  swpd explain '{"msg":"denied","peer":"spiffe://example.org/agents/planner","profile":"rpc","operation":"call","name":"x"}'`,
	}
	file := configFlag(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print JSON, one object a line")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		by := basis{Config: *file}
		if *file == "" {
			var err error
			if by, err = runningBasis(); err != nil {
				return err
			}
		}
		c, err := load(cmd, by.Config, theRules())
		if err != nil {
			return err
		}
		from := cmd.InOrStdin()
		if len(args) > 0 {
			from = strings.NewReader(strings.Join(args, "\n"))
		}
		return explainLines(cmd.OutOrStdout(), c, by, from, *asJSON)
	}
	return cmd
}

// explainLines explains the denials among lines of a log, each different one once.
func explainLines(out io.Writer, c *config.Config, by basis, from io.Reader, asJSON bool) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLogLine)
	seen := make(map[check.Denial]bool)
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		d, err := check.ReadDenial(lines.Text())
		if errors.Is(err, check.ErrNoDenial) {
			continue
		}
		if err != nil {
			return &exitError{exitUsage, fmt.Errorf("explain: %w: %.100q", err, lines.Text())}
		}
		same := *d
		same.Time = ""
		if seen[same] {
			continue
		}
		e, err := check.ExplainDenial(c, d)
		if err == nil {
			err = printExplanation(out, e, by, asJSON, len(seen) > 0)
		}
		if err != nil {
			return err
		}
		seen[same] = true
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	if len(seen) == 0 {
		return errors.New("explain: no line is about a denial; those that are have msg \"denied\", \"refused by partner\", or \"security event\" with reason \"denied\" or with a remedy (do)")
	}
	return nil
}

// printExplanation prints one explanation, after an empty line if another came before it, and
// else after the configuration by which it explains.
func printExplanation(out io.Writer, e *check.Explanation, by basis, asJSON, more bool) error {
	if asJSON {
		return printJSONLine(out, struct {
			basis
			*check.Explanation
		}{by, e})
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	if more {
		row("")
	} else {
		row("configuration\t%s", by)
	}
	d := e.Denial
	row("who\t%s", d.Identity)
	switch {
	case d.Kept:
		row("what\tto connect")
	default:
		row("what\t%s", strings.TrimSpace(d.Profile+" "+d.Operation+" "+d.Name))
	}
	if d.Time != "" {
		row("when\t%s", d.Time)
	}
	if d.Handshake != "" {
		row("why\t%s", d.Handshake)
	}
	if d.Refused != "" {
		row("by\tpartner %s", d.Partner)
	}
	if e.Answer != nil && !d.Kept {
		printAnswer(w, e.Answer)
	} else if e.Answer != nil && e.Answer.Deny != nil {
		row("no\t%s", ruleLine(e.Answer.Deny))
	}
	row("do\t%s", strings.ReplaceAll(e.Do, "\n", "\n\t"))
	return w.Flush()
}
