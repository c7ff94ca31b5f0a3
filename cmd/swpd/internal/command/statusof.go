package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon"
	"github.com/slimwire/swp/internal/plain"
)

// kindOf is the kind of a thing behind swpd, as rows of the status begin.
func kindOf(b *daemon.Behind) string {
	if b.Kind == "server" {
		return "MCP server"
	}
	return string(b.Kind)
}

// describe prints what is known of the things of a name. The error has the exit code of one that does not work.
func describe(out io.Writer, s *daemon.Status, name string, asJSON, lines bool) error {
	var found []daemon.Behind
	var names []string
	for _, b := range s.Behind {
		names = append(names, b.Name)
		if b.Name == name {
			found = append(found, b)
		}
	}
	if len(found) == 0 {
		text := fmt.Sprintf("nothing behind this swpd is called %q", name)
		if meant := plain.Meant(name, names); meant != "" {
			text += fmt.Sprintf("; did you mean %s?", meant)
		}
		return errors.New(text)
	}
	var err error
	switch {
	case asJSON && lines:
		err = json.NewEncoder(out).Encode(found)
	case asJSON:
		err = printJSON(out, found)
	default:
		for i := range found {
			if err = printBehind(out, &found[i], time.Now()); err != nil {
				return err
			}
		}
	}
	for i := range found {
		if b := &found[i]; err == nil && !b.State.Well() {
			err = &exitError{exitUnwell, errors.New(b.Title() + " is " + string(b.State))}
		}
	}
	return err
}

// printBehind prints the record of a thing.
func printBehind(out io.Writer, b *daemon.Behind, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", name, cli.Field(fmt.Sprintf(format, args...)))
	}
	at := func(t time.Time) string {
		return fmt.Sprintf("%s, %s ago", t.UTC().Format(time.RFC3339), now.Sub(t).Round(time.Second))
	}
	row(kindOf(b), "%s", b.Name)
	row("state", "%s since %s", b.State, at(b.Since))
	if b.LastSuccess.IsZero() {
		row("last success", "none is known")
	} else {
		row("last success", "%s", at(b.LastSuccess))
	}
	if e := b.LastError; e != nil {
		row("last error", "%s", at(e.At))
		row("", "%s", e.Text)
		head := "it said"
		for _, line := range e.Output {
			row(head, "%s", strings.TrimRight(line, " "))
			head = ""
		}
	}
	row("failures", "%d in the last 24 hours", b.Failures)
	if b.Remedy != "" {
		row("do", "%s", b.Remedy)
	}
	return w.Flush()
}
