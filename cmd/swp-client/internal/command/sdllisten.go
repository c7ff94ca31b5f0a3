package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/sdl"
)

func newSDLListen(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "listen ADDR|URL AGENT",
		Short: "Declare an agent, and print the events for it",
		Long: `Declare an agent at an endpoint and print the payloads of the events for it, such as
states of its tasks, a line each, until Ctrl-C; with --json whole envelopes. It also takes
the events that the relay has stored for the agent, topic sdl/AGENT, if a rule allows it.
After a lost connection this reconnects, without a time limit. An event may come twice.

With --trust events without a signature by one of those keys are not printed; --keys opens
encrypted ones.

` + sdlWaysHelp + `
http:// is a WebSocket here, because a POST brings no events. An agent is declared there by a
negotiation.v1 to the agent of the endpoint, or of its partner, that --to names.`,
		Example: `  swp-client sdl listen swp+tls://127.0.0.1:7777 did:key:caller
  swp-client sdl listen swp+tls://127.0.0.1:7777 did:key:caller --trust @server/sign.pub --keys caller/keys.json --count 1
  swp-client sdl listen ws://127.0.0.1:8080 did:key:caller --to did:web:example.org
  swp-client sdl listen unix:/run/swpd/sdl.sock did:key:caller --to did:web:example.org`,
	}
	var w wanted
	trust, ways := addTrusting(cmd, "events"), addSDLWays(cmd)
	to := cmd.Flags().String("to", "", "without SWP: `agent_id` of the endpoint, to which the agent is declared")
	w.flags(cmd, "events")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := w.check(); err != nil {
			return err
		}
		switch {
		case client.WithoutSWP(args[0]) && *to == "":
			return &usageError{"--to is missing: without SWP an agent is declared by an envelope, to the agent_id of the endpoint"}
		case !client.WithoutSWP(args[0]) && *to != "":
			return &usageError{"--to has no effect over SWP, where the agent is declared without an envelope; leave it out"}
		}
		believed, err := trust.read(f)
		if err != nil {
			return err
		}
		return w.within(cmd.Context(), func(ctx context.Context) error {
			return client.SDLListener{
				Connect: func(ctx context.Context, set *all.Set) (*client.Client, error) {
					return ways.dial(ctx, f, args[0], set, true)
				},
				Agent: args[1], To: *to, Trust: believed, Count: w.count, Silence: f.timeout,
				Heard: func(e *sdl.Envelope) error {
					w.came.Add(1)
					return f.printEnvelope(e)
				},
				Ignored: func(err error) { f.warnf("an event is not believed: %v", err) },
				NoRelay: func(err error) { f.warnf("events that the relay has stored are not read: %v", err) },
				Refused: func(err error) {
					f.warnf("the declaration of %s is refused, so its events may not come: %v", args[1], err)
				},
				Attached: func(on *client.Client) {
					f.warnf("agent %s at %s", args[1], on.Peer().Identity)
				},
				Lost: func(err error, pause time.Duration) {
					f.warnf("%s; again in %v", lost(err), pause.Round(time.Millisecond))
				},
			}.Listen(ctx)
		})
	}
	return cli.UntilStopped(cmd)
}

// printEnvelope prints the payload of an envelope, with --json all of it.
func (f *flags) printEnvelope(e *sdl.Envelope) error {
	if f.asJSON {
		return f.writeEnvelope(sdl.JSON, e.Value)
	}
	return f.writeEnvelope(sdl.JSON, e.Payload)
}

// trusting are the flags that say which envelopes are believed, and what opens them.
type trusting struct {
	trust []string
	keys  string
}

func addTrusting(cmd *cobra.Command, what string) *trusting {
	t := new(trusting)
	cmd.Flags().StringArrayVar(&t.trust, "trust", nil, fmt.Sprintf("`KID=PUBLIC`, or @FILE, of a key that signs the %s (repeatable)", what))
	cmd.Flags().StringVar(&t.keys, "keys", "", fmt.Sprintf("`file` with decrypt_private_keys, as of sdl keygen: opens encrypted %s", what))
	return t
}

func (t *trusting) read(f *flags) (trust client.SDLTrust, err error) {
	if trust.Signers, err = f.verifyKeys("--trust", t.trust); err == nil && t.keys != "" {
		trust.Keys, err = readDecryptKeys(t.keys)
	}
	return trust, err
}
