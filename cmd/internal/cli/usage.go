package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slimwire/swp/internal/plain"
)

// UsageError is a mistake in the command line. The exit code is ExitUsage.
type UsageError interface {
	error

	// UsageLine returns the usage line that was not kept to, empty if that is not
	// what is wrong.
	UsageLine() string
}

// usageError is a mistake that this package finds.
type usageError struct{ text, line string }

func (e *usageError) Error() string     { return e.text }
func (e *usageError) UsageLine() string { return e.line }

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error { return &usageError{text: fmt.Sprintf(format, args...)} }

// Unexpected is the error for an argument that a command does not take. Of one that seems to
// be a configuration it says how that is named.
func Unexpected(cmd *cobra.Command, value string) error {
	text := fmt.Sprintf("unexpected argument %.80q", value)
	if ext := filepath.Ext(value); cmd.Flag("config") != nil && (ext == ".yaml" || ext == ".yml") {
		text += fmt.Sprintf("; a configuration is named by a flag: %s --config %s", cmd.CommandPath(), plain.Word(value))
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "bool" && isSetting(value) {
			text += fmt.Sprintf("; --%s takes no value", f.Name)
		}
	})
	return &usageError{text, cmd.UseLine()}
}

// isSetting reports whether an argument looks like the value of a flag.
func isSetting(value string) bool {
	_, notDuration := time.ParseDuration(value)
	_, notBool := strconv.ParseBool(value)
	return notDuration == nil || notBool == nil
}

func asUsage(err error) (UsageError, bool) { return errors.AsType[UsageError](err) }

// Argument says what is special about an argument.
type Argument struct {
	// Check returns why a value is not taken. Nil means that every value is.
	Check func(value string) error

	// Complete proposes values. Nil means files where the usage line says FILE, and
	// else none.
	Complete func(typed string) ([]cobra.Completion, cobra.ShellCompDirective)
}

// usage is what a usage line declares.
type usage struct {
	args  []argument
	flags []string // that are required, as --name VALUE
	dash  int      // how many arguments come before --, -1 if there is none
}

type argument struct {
	name               string
	optional, repeated bool
}

// parseUsage reads the usage line of a command: its name; arguments as NAME,
// [NAME], NAME... and [NAME]...; flags that are required as --flag VALUE; and
// others as [--flag VALUE]. Arguments after -- belong to another program.
func parseUsage(line string) usage {
	u := usage{dash: -1}
	words := tokens(line)[1:]
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case word == "--":
			u.dash = len(u.args)
		case strings.HasPrefix(word, "[-"):
		case strings.HasPrefix(word, "-") && len(word) > 1:
			if i+1 < len(words) {
				i++
				word += " " + words[i]
			}
			u.flags = append(u.flags, word)
		default:
			var a argument
			a.name, a.repeated = strings.CutSuffix(word, "...")
			if strings.HasPrefix(a.name, "[") {
				a.name, a.optional = a.name[1:len(a.name)-1], true
			}
			u.args = append(u.args, a)
		}
	}
	return u
}

// tokens splits a usage line at spaces outside brackets.
func tokens(line string) []string {
	depth := 0
	return strings.FieldsFunc(line, func(r rune) bool {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		}
		return r == ' ' && depth == 0
	})
}

// required counts the mandatory arguments.
func (u *usage) required() int {
	n := 0
	for _, a := range u.args {
		if !a.optional {
			n++
		}
	}
	return n
}

// named calls each with every value and the argument that it is for, until one
// returns false. Optional arguments get what is left over, from left to right.
func (u *usage) named(values []string, each func(a argument, value string) bool) {
	spare := len(values) - u.required()
	for _, a := range u.args {
		if a.optional && spare <= 0 {
			continue
		}
		for first := true; len(values) > 0 && (first || a.repeated && spare > 0); first = false {
			if a.optional || !first {
				spare--
			}
			if !each(a, values[0]) {
				return
			}
			values = values[1:]
		}
	}
}

// missing names what has to be there and is not.
func (u *usage) missing(cmd *cobra.Command, values []string) []string {
	var names []string
	n := 0
	for _, a := range u.args {
		if a.optional {
			continue
		}
		if n++; n > len(values) {
			names = append(names, a.name)
		}
	}
	for _, flag := range u.flags {
		if name, _, _ := strings.Cut(flag, " "); !cmd.Flags().Changed(strings.TrimPrefix(name, "--")) {
			names = append(names, flag)
		}
	}
	return names
}

// tooMany returns the first value that no argument is there for.
func (u *usage) tooMany(values []string) (string, bool) {
	if len(values) <= len(u.args) || slices.ContainsFunc(u.args, func(a argument) bool { return a.repeated }) {
		return "", false
	}
	return values[len(u.args)], true
}

// declare has a command check its arguments, and complete them, as its usage line
// declares them; what Args of the command refuses besides is a UsageError, too.
func (p *Program) declare(cmd *cobra.Command) {
	if cmd.Name() == "help" {
		return
	}
	u, more := parseUsage(cmd.Use), cmd.Args
	cmd.Args = func(cmd *cobra.Command, values []string) error {
		err := p.checkArguments(cmd, &u, values)
		if err == nil && more != nil {
			if err = more(cmd, values); err != nil {
				err = &usageError{err.Error(), cmd.UseLine()}
			}
		}
		return err
	}
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = func(_ *cobra.Command, values []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return p.complete(&u, values, typed)
		}
	}
}

func (p *Program) checkArguments(cmd *cobra.Command, u *usage, values []string) error {
	fail := func(format string, args ...any) error {
		return &usageError{fmt.Sprintf(format, args...), cmd.UseLine()}
	}
	if names := u.missing(cmd, values); len(names) == 1 {
		return fail("%s is missing", names[0])
	} else if len(names) > 1 {
		last := len(names) - 1
		return fail("%s and %s are missing", strings.Join(names[:last], ", "), names[last])
	}
	if extra, ok := u.tooMany(values); ok {
		return Unexpected(cmd, extra)
	}
	if u.dash >= 0 && cmd.ArgsLenAtDash() != u.dash {
		return fail("-- has to stand before %s", u.args[u.dash].name)
	}
	var err error
	u.named(values, func(a argument, value string) bool {
		if check := p.Arguments[a.name].Check; check != nil {
			err = check(value)
		}
		return err == nil
	})
	return err
}

// complete proposes values for the argument after those that are there.
func (p *Program) complete(u *usage, values []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(u.args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	next := u.args[min(len(values), len(u.args)-1)]
	if len(values) >= len(u.args) && !next.repeated {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if a, ok := p.Arguments[next.name]; ok && a.Complete != nil {
		return a.Complete(typed)
	}
	if slices.ContainsFunc(strings.Split(next.name, "|"), func(form string) bool {
		return form == "FILE" || form == "DIR" || form == "COMMAND" || form == "ARG"
	}) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// groupMark marks commands that only have others below them.
const groupMark = "group"

// group has a command without a function refuse to run: with its usage, or with the
// names that are like the one that is not there.
func group(cmd *cobra.Command) {
	if cmd.Annotations == nil {
		cmd.Annotations = make(map[string]string)
	}
	cmd.Annotations[groupMark] = "true"
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknown(cmd, args[0])
		}
		var names []string
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, sub.Name())
			}
		}
		return &usageError{
			fmt.Sprintf("%s needs a command: %s", cmd.CommandPath(), strings.Join(names, ", ")), cmd.CommandPath() + " COMMAND",
		}
	}
}

// unknown is the error of a command that there is not.
func unknown(cmd *cobra.Command, name string) error {
	text := fmt.Sprintf("unknown command %.80q for %q", name, cmd.CommandPath())
	if like := cmd.SuggestionsFor(name); len(like) > 0 {
		text += "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return &usageError{text, cmd.CommandPath() + " COMMAND"}
}

// flagError is the error of a flag. Before a command that there is not, its flags are
// unknown, too, and that is not what is wrong.
func flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.Annotations[groupMark] != "" && len(args) > 0 {
		return unknown(cmd, args[0])
	}
	text := err.Error()
	if missing, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if found := like(missing.GetSpecifiedName(), names); len(found) > 0 {
			text += "; did you mean --" + strings.Join(found, " or --") + "?"
		}
	}
	if strings.Contains(text, "missing unit in duration") || strings.Contains(text, "invalid duration") {
		text += "; write 500ms, 10s or 5m"
	}
	return &usageError{text, cmd.UseLine()}
}

// like returns names similar to a mistyped one, as cobra does for commands.
func like(name string, names []string) []string {
	all := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, n := range names {
		all.AddCommand(&cobra.Command{Use: n, Run: func(*cobra.Command, []string) {}})
	}
	return all.SuggestionsFor(name)
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]...",
		Short: "Print the help of a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			if at, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range at.Commands() {
					if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), typed) {
						names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			at, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = unknown(at, rest[0])
			}
			if err != nil {
				return err
			}
			return at.Help()
		},
	}
}
