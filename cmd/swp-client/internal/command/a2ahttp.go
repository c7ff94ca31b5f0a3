package command

import (
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/internal/bridge/a2afront"
)

func newA2AHTTP(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "http ADDR/AGENT",
		Short: "Be a local A2A agent over HTTP that is really the remote one",
		Long: `Be an A2A 1.0 agent over HTTP that is really the one of that name behind the endpoint,
or behind a partner of it (ADDR/PARTNER/AGENT): JSON-RPC and REST at the printed URL,
the card at /.well-known/agent-card.json. Messages pass octet for octet. Whoever can
connect to the address acts as this client, so it has to be a loopback address; requests
of other web sites are refused. A lost connection to the endpoint is replaced,
and streams go on over it.`,
		Example: `  swp-client a2a http swp+tls://127.0.0.1:7777/billing --listen 127.0.0.1:8081
  swp-client a2a http swp+quic://127.0.0.1:7777/acme/billing --param x-request-class`,
	}
	var o client.A2AHTTPOptions
	listen := cmd.Flags().String("listen", "127.0.0.1:8081", "loopback `address` to listen on; port 0 lets the system choose")
	cmd.Flags().StringArrayVar(&o.Params, "param", nil, "`header` that is a service parameter, besides those that begin with A2A-; may be repeated")
	cmd.Flags().BoolVar(&o.Verbatim, "verbatim", false, "tell the card as its author wrote it, with the interfaces and signatures that it has")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		to, agent, err := split(args[0])
		if err != nil {
			return err
		}
		for _, name := range o.Params {
			if err := a2afront.CheckParam(name); err != nil {
				return &usageError{"--param: " + strings.TrimPrefix(err.Error(), "a2afront: ")}
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
