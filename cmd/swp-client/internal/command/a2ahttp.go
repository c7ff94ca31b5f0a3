package command

import (
	"net/url"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/internal/bridge/a2afront"
	"github.com/slimwire/swp/internal/plain"
)

func newA2AHTTP(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "http ADDR/AGENT",
		Short: "Serve a remote agent as a local A2A agent over HTTP",
		Long: `Serve a remote agent as a local A2A 1.0 agent over HTTP: JSON-RPC and REST at the
printed URL, the card at /.well-known/agent-card.json. The agent is behind the
endpoint, or behind a partner of it (ADDR/PARTNER/AGENT). Messages are forwarded octet
for octet. Every program that can connect acts as this client, so the address must be
a loopback address; cross-origin requests of web pages are refused. After a lost
connection this reconnects, and streams continue.`,
		Example: `  swp-client a2a http swp+tls://127.0.0.1:7777/billing --listen 127.0.0.1:8081
  swp-client a2a http swp+quic://127.0.0.1:7777/acme/billing --param x-request-class`,
	}
	var o client.A2AHTTPOptions
	listen := cmd.Flags().String("listen", "127.0.0.1:8081", "loopback `address` to listen on; with port 0 the system chooses")
	cmd.Flags().StringArrayVar(&o.Params, "param", nil, "`header` that is a service parameter, in addition to names that begin with A2A-; may be repeated")
	cmd.Flags().BoolVar(&o.Verbatim, "verbatim", false, "serve the card unchanged, with its interfaces and signatures")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		to, agent, err := split(args[0])
		if err != nil {
			return err
		}
		for _, name := range o.Params {
			if err := a2afront.CheckParam(name); err != nil {
				return &usageError{"--param: " + plain.Error(err)}
			}
		}
		if o.Listener, err = listenLocally(cmd.Context(), *listen); err != nil {
			return err
		}
		at := url.URL{Scheme: "http", Host: o.Listener.Addr().String(), Path: a2afront.Path + "/" + agent}
		o.Peer, o.Agent = f.keep(to.String()), agent
		defer o.Peer.Close()
		o.Ready = func() { f.printf("%s\n", &at) }
		return client.ServeA2AHTTP(cmd.Context(), o)
	}
	return cli.UntilStopped(cmd)
}
