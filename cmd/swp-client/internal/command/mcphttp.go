package command

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
)

func newMCPHTTP(f *flags, server *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "http ADDR",
		Short: "Be a local MCP server over HTTP that is really the remote one",
		Long: `Be an MCP server over Streamable HTTP that is really the one behind the endpoint, at
the path /mcp. Messages pass octet for octet. Whoever can connect to the address acts
as this client, so it has to be a loopback address; web pages of elsewhere are refused.
A connection to the endpoint that is lost is made anew; a legacy session goes on with
it.`,
		Example: `  swp-client mcp http swp+tls://127.0.0.1:7777/files --listen 127.0.0.1:8080`,
		Args:    cobra.ExactArgs(1),
	}
	listen := cmd.Flags().String("listen", "127.0.0.1:8080", "loopback `address` to listen on; port 0 lets the system choose")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		_, target, err := client.SplitTarget(args[0])
		switch {
		case err != nil:
			return &usageError{err.Error()}
		case target != "" && *server != "" && target != *server:
			return &usageError{fmt.Sprintf("the address names the server %q and --server %q; keep one", target, *server)}
		case target == "":
			target = *server
		}
		ln, err := listenLocally(cmd.Context(), *listen)
		if err != nil {
			return err
		}
		return client.ServeHTTP(cmd.Context(), client.HTTPOptions{
			Connect: f.dialer(args[0]), Target: target, Listener: ln, Patience: f.timeout,
			Ready: func() { f.printf("http://%s/mcp\n", ln.Addr()) },
		})
	}
	return cmd
}

// listenLocally listens on the loopback address that --listen names.
func listenLocally(ctx context.Context, address string) (net.Listener, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().Unmap().IsLoopback() {
		return nil, &usageError{fmt.Sprintf("--listen %.80q is no loopback address with a port, such as 127.0.0.1:8080", address)}
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", at.String())
}
