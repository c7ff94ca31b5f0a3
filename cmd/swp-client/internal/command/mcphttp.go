package command

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
)

func newMCPHTTP(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "http ADDR[/SERVER]",
		Short: "Serve a remote MCP server over local HTTP",
		Long: `Serve a remote MCP server over Streamable HTTP, at the path /mcp. Messages are
forwarded octet for octet. Every program that can connect acts as this client, so the
address must be a loopback address; cross-origin requests of web pages are refused.
After a lost connection this reconnects, and legacy sessions continue. A request for a
session that no longer exists gets 404, and the client then begins another.`,
		Example: `  swp-client mcp http swp+tls://127.0.0.1:7777/files --listen 127.0.0.1:8080`,
	}
	server := serverFlag(cmd)
	listen := cmd.Flags().String("listen", "127.0.0.1:8080", "loopback `address` to listen on; with port 0 the system chooses")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		at, target, err := behind(args[0], "--server", *server)
		if err != nil {
			return err
		}
		ln, err := listenLocally(cmd.Context(), *listen)
		if err != nil {
			return err
		}
		peer := f.keep(at)
		defer peer.Close()
		return client.ServeHTTP(cmd.Context(), client.HTTPOptions{
			Peer: peer, Target: target, Listener: ln,
			Ready: func() { f.printf("http://%s/mcp\n", ln.Addr()) },
		})
	}
	return cli.UntilStopped(cmd)
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
