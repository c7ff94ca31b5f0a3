// Package command is the command line of swpd.
package command

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon/config"
)

// Exit codes besides those of package cli.
const (
	exitFailed = cli.ExitFailed
	exitUsage  = cli.ExitUsage // the command line or the configuration is wrong
	exitUnwell = 3             // status: running but not ready
	exitLater  = 4             // reload: something waits for the next start
)

// exitError is an error with its own exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// Main runs the command line and returns the exit code. An empty version takes
// that of the build information.
func Main(version string, args []string, stdout, stderr io.Writer) int {
	version = cli.Version(version)
	p := cli.Program{Root: newRoot(version), Version: version, Code: code}
	return p.Main(args, os.Stdin, stdout, stderr)
}

// code returns the exit code for the result of a command.
func code(err error) int {
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.code
	}
	if _, ok := errors.AsType[config.Problems](err); ok {
		return exitUsage
	}
	return cli.ExitFailed
}

func newRoot(version string) *cobra.Command {
	root := &cobra.Command{
		Use:   "swpd",
		Short: "A federation endpoint for agents and tools",
		Long: `swpd connects agents and tools of different organisations over SlimWire:
mutual TLS 1.3 or QUIC between the endpoints, your MCP servers behind them.

Exit status: 0 for success, 1 for a failure, 2 if the command line or the configuration
is wrong, 130 after Ctrl-C; run exits with 0 after an orderly stop. Errors are on standard
error; with --json as an object in its last line:
{"error":{"kind":…,"message":…,"exit_code":…}}.`,
		Example: `  swpd run                              loopback, development certificates, the built-in RPC methods
  swpd init --dir edge && cd edge       certificates and swpd.yaml
  swpd check --config swpd.yaml         what it would serve to whom, or what is wrong with it
  swpd check --as spiffe://example.org/agents/planner   what somebody may do
  swpd run --config swpd.yaml`,
	}
	root.AddCommand(newInit(), newRun(version), newCheck(), newExplain(), newSchema(), newStatus(), newPage(), newReload(), newCert(), newAudit(), newStore(), newBackup(), newRestore(), newPartner())
	return root
}

// configFlag adds --config, whose default is SWPD_CONFIG.
func configFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("config", os.Getenv("SWPD_CONFIG"), "configuration `file`; without one the built-in configuration is used")
}

// loadAll reads a whole configuration, for run and check.
func loadAll(file string) (*config.Config, error) {
	c, err := config.Load(file, os.Environ())
	if err != nil {
		return nil, &exitError{exitUsage, err} // one that cannot be read is wrong, too
	}
	return c, nil
}
