package command

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon"
	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/config"
)

// errNo is the answer no, which was printed.
var errNo = &exitError{exitFailed, cli.ErrPrinted}

// checkQuestion reports whether the arguments of check --may are complete.
func checkQuestion(as string, args []string) error {
	nameless := len(args) == 2 && slices.Contains(config.Nameless(), args[0])
	switch {
	case as == "":
		return errors.New("check --may: --as IDENTITY is missing")
	case len(args) != 3 && !nameless:
		return fmt.Errorf("check --may: %d arguments, want PROFILE OPERATION NAME, such as: mcp tools/call files/read_file", len(args))
	}
	return nil
}

// answerMay prints the answer of check --may. It fails with errNo if that is no.
func answerMay(out io.Writer, c *config.Config, by basis, as string, args []string, asJSON bool) error {
	q := check.Question{Identity: as, Profile: args[0], Operation: args[1]}
	if len(args) > 2 {
		q.Name = args[2]
	}
	a, err := check.May(c, q)
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("check --may: %w", err)}
	}
	if a.Allowed && a.Pinned != "" {
		askPin(by.Config, a)
	}
	if asJSON {
		err = printJSON(out, struct {
			basis
			*check.Answer
		}{by, a})
	} else {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintf(w, "configuration\t%s\n", by)
		printAnswer(w, a)
		err = w.Flush()
	}
	if err == nil && !a.Allowed {
		err = errNo
	}
	return err
}

// askPin asks the swpd that runs with a configuration whether the partner lists the pinned tool of an answer as
// it was pinned.
func askPin(file string, a *check.Answer) {
	_, s, err := askStatus(new(server), file)
	if err == nil {
		judgePin(file, s, a)
		return
	}
	a.Notes = append(a.Notes, fmt.Sprintf("the tool is pinned, and no swpd that runs says whether the partner lists it as it was pinned; once one runs, ask swpd partner pin %s", a.Partner.Name))
}

// judgePin makes the answer no if the partner lists the pinned tool otherwise.
func judgePin(file string, s *daemon.Status, a *check.Answer) {
	for i := range s.Partners {
		if one := &s.Partners[i]; one.Name == a.Partner.Name && slices.Contains(one.Drifted, a.Pinned) {
			a.Drifted(file)
		}
	}
}

// printAnswer prints an answer in rows of two columns.
func printAnswer(w io.Writer, a *check.Answer) {
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	switch {
	case a.Open:
		row("yes\tthe method is open to every peer, without an idempotency_key")
	case a.Allowed:
		row("yes\t%s", ruleLine(a.Rule))
	case a.Barred != "":
		row("no\t%s", a.Barred)
	case a.Deny != nil:
		row("no\tthe identity is denied everything: %s", ruleLine(a.Deny))
	default:
		row("no\tno rule matches")
	}
	for _, near := range a.Nearest {
		row("nearest\t%s", ruleLine(&near.RuleText))
		row("\tdoes not match: %s", strings.Join(near.Misses, ", "))
	}
	if p := a.Partner; p != nil {
		row("partner\t%s (%s) decides the rest, by its own rules for %s:", p.Name, p.Identity, p.Question.Identity)
		row("\t%s, there", p.Question.Command())
	}
	for _, note := range a.Notes {
		row("note\t%s", note)
	}
	for _, entry := range []struct{ title, yaml string }{{"to allow", a.Allow}, {"for a client", a.AllowClient}} {
		if entry.yaml != "" {
			row("%s\t%s", entry.title, strings.ReplaceAll(strings.TrimRight(entry.yaml, "\n"), "\n", "\n\t"))
		}
	}
}

func ruleLine(r *check.RuleText) string {
	at := ""
	if r.Place != "" {
		at = " (" + r.Place + ")"
	}
	return r.Key + at + ": " + r.Text
}
