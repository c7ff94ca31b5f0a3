// Package command is the command line of swpd.
package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/daemon/config"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // it was tried and failed
	exitUsage  = 2 // the command line or the configuration is wrong
	exitUnwell = 3 // status: running but not ready
)

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return "no" // it was printed
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// Main runs the command line and returns the exit code. An empty version is that
// of the build information.
func Main(version string, args []string, stdout, stderr io.Writer) int {
	if version == "" {
		version = buildVersion()
	}
	root := newRoot(version)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	ran := false
	root.PersistentPreRun = func(*cobra.Command, []string) { ran = true }
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	if !errors.Is(err, errNo) {
		say(stderr, err)
	}
	var exit *exitError
	var problems config.Problems
	switch {
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &problems), !ran:
		return exitUsage
	}
	return exitFailed
}

// say prints each line of an error on a line of its own.
func say(w io.Writer, err error) {
	for line := range strings.Lines(err.Error()) {
		_, _ = fmt.Fprintf(w, "swpd: %s\n", strings.TrimSuffix(line, "\n"))
	}
}

func newRoot(version string) *cobra.Command {
	root := &cobra.Command{
		Use:   "swpd",
		Short: "A federation endpoint for agents and tools",
		Long: `swpd connects agents and tools of different organisations over SlimWire:
mutual TLS 1.3 or QUIC between endpoints, the MCP servers you have behind them.`,
		Example: `  swpd run                              loopback, development certificates, the built-in RPC methods
  swpd init --dir edge && cd edge       certificates and swpd.yaml
  swpd check --config swpd.yaml         what it would serve to whom, or what is wrong with it
  swpd check --as spiffe://example.org/agents/planner   what somebody may do
  swpd run --config swpd.yaml`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newInit(), newRun(version), newCheck(), newExplain(), newStatus(), newReload(), newCert(), newVersion(version))
	return root
}

// configFlag adds --config, whose default is SWPD_CONFIG.
func configFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("config", os.Getenv("SWPD_CONFIG"), "configuration `file`; without one the built-in configuration is used")
}

func load(file string) (*config.Config, error) {
	return config.Load(file, os.Environ())
}

// buildVersion is the version of the module.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}
