package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newMan makes the command that those call who package the program.
func newMan(p *Program) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages",
		Long:    "Write the manual pages of the program and of each of its commands into a directory,\nwhich is made if need be.",
		Example: "  " + p.Root.Name() + " man share/man/man1",
		Hidden:  true,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // for everybody to read
				return err
			}
			var failed error
			walk(p.Root, func(cmd *cobra.Command) {
				if !cmd.Hidden && failed == nil {
					name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
					failed = os.WriteFile(filepath.Join(args[0], name), p.manPage(cmd), 0o644) //nolint:gosec // for everybody to read
				}
			})
			return failed
		},
	}
}

// manPage returns the manual page of a command, for man(7).
func (p *Program) manPage(cmd *cobra.Command) []byte {
	m := &page{idle: p.idle(cmd)}
	root := cmd.Root()
	m.line(`.TH "%s" "1" "" "%s %s" "User Commands"`, strings.ToUpper(strings.ReplaceAll(cmd.CommandPath(), " ", `\-`)), root.Name(), root.Version)
	m.line(".SH NAME\n%s \\- %s", roff(strings.ReplaceAll(cmd.CommandPath(), " ", "-")), roff(cmd.Short))
	m.line(".SH SYNOPSIS\n.B %s", roff(synopsis(cmd)))
	if cmd.Long != "" {
		m.line(".SH DESCRIPTION")
		m.text(cmd.Long)
	}
	m.commands(cmd)
	m.flags("OPTIONS", cmd.NonInheritedFlags())
	m.inherited(cmd)
	if cmd.Example != "" {
		m.line(".SH EXAMPLES")
		m.verbatim(cmd.Example)
	}
	m.line(".SH EXIT STATUS")
	m.text(exitStatus)
	if RunsUntilStopped(cmd) {
		m.line(".PP\nThis command runs until it is told to stop.")
	}
	m.seeAlso(cmd)
	return m.Bytes()
}

// exitStatus is what all programs say of their exit codes.
const exitStatus = `0 when it was done; 1 when it was tried and failed; 2 when the command line or the
configuration is wrong; 130 after Ctrl-C, 143 after SIGTERM. A command that runs until it is
told to stop ends in order with 0 after SIGTERM, and swpd run with 0 after either.`

// page is a manual page that is being written.
type page struct {
	bytes.Buffer
	idle []*pflag.Flag // are left out
}

func (m *page) line(format string, args ...any) { _, _ = fmt.Fprintf(m, format+"\n", args...) }

// roff writes text so that it is not read as markup.
func roff(text string) string {
	text = strings.ReplaceAll(text, `\`, `\e`)
	text = strings.ReplaceAll(text, "-", `\-`)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

func synopsis(cmd *cobra.Command) string {
	if cmd.Annotations[groupMark] != "" {
		return cmd.CommandPath() + " COMMAND"
	}
	return cmd.UseLine()
}

// text writes paragraphs. An indented one is written unchanged.
func (m *page) text(text string) {
	for paragraph := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		if strings.HasPrefix(paragraph, "  ") {
			m.verbatim(paragraph)
			continue
		}
		m.line(".PP\n%s", roff(paragraph))
	}
}

func (m *page) verbatim(text string) { m.line(".PP\n.nf\n%s\n.fi", roff(strings.Trim(text, "\n"))) }

func (m *page) commands(cmd *cobra.Command) {
	first := true
	for _, sub := range cmd.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		if first {
			m.line(".SH COMMANDS")
			first = false
		}
		m.line(".TP\n.B %s\n%s.", roff(sub.Name()), roff(sub.Short))
	}
}

func (m *page) flags(title string, flags *pflag.FlagSet) {
	before := m.Len()
	m.line(".SH %s", title)
	none := m.Len()
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || slices.Contains(m.idle, flag) {
			return
		}
		value, about := pflag.UnquoteUsage(flag)
		names := "--" + flag.Name
		if flag.Shorthand != "" {
			names = "-" + flag.Shorthand + ", " + names
		}
		if flag.NoOptDefVal == "" && value != "" {
			names += " " + value
		}
		switch flag.DefValue {
		case "", "false", "0", "0s", "[]":
		default:
			about += " (default " + flag.DefValue + ")"
		}
		m.line(".TP\n.B %s\n%s", roff(names), roff(about))
	})
	if m.Len() == none {
		m.Truncate(before)
	}
}

// inherited writes the flags of the commands above, each under the one that has it.
func (m *page) inherited(cmd *cobra.Command) {
	cmd.VisitParents(func(parent *cobra.Command) {
		title := "OPTIONS OF ALL COMMANDS"
		if parent.HasParent() {
			title += " OF " + strings.ToUpper(roff(parent.CommandPath()))
		}
		m.flags(title, parent.PersistentFlags())
	})
}

func (m *page) seeAlso(cmd *cobra.Command) {
	var pages []string
	if cmd.HasParent() {
		pages = append(pages, cmd.Parent().CommandPath())
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			pages = append(pages, sub.CommandPath())
		}
	}
	for i, name := range pages {
		pages[i] = fmt.Sprintf(`\fB%s\fP(1)`, roff(strings.ReplaceAll(name, " ", "-")))
	}
	if len(pages) > 0 {
		m.line(".SH SEE ALSO\n%s", strings.Join(pages, ",\n"))
	}
}
