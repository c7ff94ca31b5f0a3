// Package cli is the command line that the programs share: arguments declared by
// usage lines, exit codes, errors as text and as JSON, signals, the version,
// completion and manual pages.
package cli

import (
	"errors"
	"io"
	"slices"

	"github.com/spf13/cobra"
)

// Exit codes. A program may have others.
const (
	ExitOK     = 0
	ExitFailed = 1 // it was tried and failed
	ExitUsage  = 2 // the command line or the configuration is wrong
	ExitSignal = 128
)

// ErrPrinted is wrapped by an error that was printed already.
var ErrPrinted = errors.New("printed")

// Program is a command line. Root is required.
type Program struct {
	Root *cobra.Command

	// Version is the version set at build time; empty takes that of the build
	// information.
	Version string

	// Arguments say what is special about arguments, by their names in usage lines.
	Arguments map[string]Argument

	// Effect returns the names of the persistent flags of Root that take effect in a
	// command: its help and its manual page show no others. Nil means that all do.
	Effect func(cmd *cobra.Command) []string

	// Before is asked before a command runs, once its arguments are in order. Nil
	// means that there is nothing to ask.
	Before func(cmd *cobra.Command) error

	// Code returns the exit code of an error that is no UsageError. Nil means
	// ExitFailed.
	Code func(error) int

	// Describe adds the program's details to an error that is printed as JSON.
	// Nil means that the text is all there is.
	Describe func(error, *Report)
}

// Main runs a command line and returns the exit code. It takes over SIGINT and
// SIGTERM: the first ends the context of the command and a Read of its standard input, and
// the exit code is then that of UntilStopped.
func (p *Program) Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := p.Root
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	p.prepare() // completion takes the output that is set by now
	s := listen()
	defer s.stop()
	in := newInput(s.ctx, stdin)
	defer func() { _ = in.Close() }() // it is read
	root.SetIn(in)
	cmd, err := root.ExecuteContextC(s.ctx)
	code := p.code(cmd, s, err)
	if err == nil || code == ExitOK || s.expected(cmd, err) || errors.Is(err, ErrPrinted) {
		return code
	}
	report := p.report(cmd, s, err, code)
	if wantsJSON(args) {
		report.writeJSON(stderr)
	} else {
		report.writeText(stderr, root.Name())
	}
	return code
}

// wantsJSON reports whether --json is on the command line, which has perhaps not
// been read to its end.
func wantsJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.ContainsFunc(args, func(arg string) bool { return arg == "--json" || arg == "--json=true" })
}

// prepare makes the tree of commands complete. It is called once.
func (p *Program) prepare() {
	root := p.Root
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetUsageTemplate(usageTemplate)
	root.SetHelpFunc(p.helpFunc(root.HelpFunc()))
	root.SetFlagErrorFunc(flagError)
	version := Version(p.Version)
	root.Version = version
	root.SetVersionTemplate(versionLine(root.Name(), version))
	root.AddCommand(newVersion(root, version), newMan(p), newCompletion(root))
	root.SetHelpCommand(newHelp())
	root.InitDefaultHelpCmd()
	walk(root, func(cmd *cobra.Command) {
		nameDefaultFlags(cmd)
		if cmd.Runnable() {
			p.declare(cmd)
			return
		}
		group(cmd)
	})
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if p.Before == nil || cmd.Annotations[groupMark] != "" {
			return nil
		}
		return p.Before(cmd)
	}
}

// walk calls do with a command and all below it.
func walk(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		walk(sub, do)
	}
}

// Walk calls do with every command of the program, which is complete by then.
func (p *Program) Walk(do func(*cobra.Command)) {
	p.prepare()
	walk(p.Root, do)
}

// code is the exit code for the result of a command.
func (p *Program) code(cmd *cobra.Command, s *signals, err error) int {
	if sig := s.first(); sig != 0 && (err != nil || RunsUntilStopped(cmd)) {
		return s.code(cmd, err)
	}
	if err == nil {
		return ExitOK
	}
	if _, wrong := asUsage(err); wrong {
		return ExitUsage
	}
	if p.Code != nil {
		return p.Code(err)
	}
	return ExitFailed
}
