package command

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon"
	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/config"
)

func newRun(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve until a signal",
		Long: `Serve until SIGTERM or SIGINT. Then no new connection is accepted, work in flight has
8 s to end, and MCP servers and the commands of workers have 2 s more; a second signal
ends everything at once. The exit code of an orderly end is 0, after a second signal 130
(SIGINT) or 143 (SIGTERM). Certificates, trust, access rules and other sections are
reloaded on SIGHUP, by swpd reload and when their files change.

Without a configuration swpd serves the built-in RPC methods over TLS and QUIC on
127.0.0.1:7777, with development certificates that it makes in the data directory.
The log goes to standard error.`,
		Example: `  swpd run
  swpd run --config swpd.yaml
  SWPD_LOG_LEVEL=debug swpd run --config swpd.yaml
  SWPD_LISTENERS_0_ADDRESS=swp+tls://127.0.0.1:0 swpd run --addr-file addresses`,
	}
	file := configFlag(cmd)
	addrFile := cmd.Flags().String("addr-file", "", "write the addresses to `file`, one a line, when all listeners are open")
	acceptDamage := cmd.Flags().Bool("accept-damage", false, "continue with the readable part of a damaged store; the damaged file is kept")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadAll(*file)
		if err != nil {
			return err
		}
		ctx := cmd.Context()
		defer context.AfterFunc(ctx, func() { notify(cmd.ErrOrStderr(), stopping) })()
		return daemon.Run(ctx, daemon.Options{
			Config:       c,
			Version:      version,
			Log:          cmd.ErrOrStderr(),
			AddrFile:     *addrFile,
			AcceptDamage: *acceptDamage,
			Reload:       hangUps(),
			Read:         func() (*config.Config, error) { return loadAll(*file) },
			Permissions:  func(c *config.Config, identity string) (any, error) { return check.As(c, identity) },
			Abort:        cli.Abort(ctx),
			Sockets:      sockets(),
			InFlight:     bounded(ctx),
			Ready:        func([]string) { notify(cmd.ErrOrStderr(), ready+"\nSTATUS=serving") },
			// A node that stands by has started: the service manager must not wait for more.
			Standby: func(active string) { notify(cmd.ErrOrStderr(), ready+"\nSTATUS=standing by for node "+active) },
		})
	}
	return cli.Service(cmd)
}

// hangUps returns a channel with a value for each SIGHUP.
func hangUps() <-chan struct{} {
	hup, again := make(chan os.Signal, 1), make(chan struct{}, 1)
	signal.Notify(hup, syscall.SIGHUP)
	go func() {
		for range hup {
			select {
			case again <- struct{}{}:
			default:
			}
		}
	}()
	return again
}
