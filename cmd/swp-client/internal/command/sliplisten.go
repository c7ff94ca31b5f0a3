package command

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/client/slipjson"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/slip/slipstream"
)

func newSLIPListen(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "listen ADDR AGENT",
		Short: "Declare an agent, and print the messages for it",
		Long: `Declare an agent at an endpoint and print the messages for it, a line each, until
Ctrl-C; with --json as an object: wire, the message in the form of decode, and the
meaning of its handles. After a lost connection this reconnects, without a time limit.

If slip.a2a of the endpoint names the agent, messages of SLIP over A2A for it arrive here
as well, as lines.

Messages that arrived while the agent was not connected are in the relay, if the
endpoint keeps them: consume the topic slip/AGENT.`,
		Example: `  swp-client slip listen swp+tls://127.0.0.1:7777 reviewer
  swp-client --json slip listen swp+tls://127.0.0.1:7777 reviewer | jq -r .message.anchor.mnemonic
  swp-client relay consume swp+tls://127.0.0.1:7777 slip/reviewer`,
	}
	var table string
	var w wanted
	cmd.Flags().StringVar(&table, "ucr", "", "`file` with the anchors of this installation")
	w.flags(cmd, "messages")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slipstream.IsAgent(args[1]) {
			return &usageError{fmt.Sprintf("agent %.100q: want letters, digits, '.', '_' and '-'", args[1])}
		}
		if err := w.check(); err != nil {
			return err
		}
		return w.within(cmd.Context(), func(ctx context.Context) error { return f.listenSLIP(ctx, args[0], args[1], table, &w) })
	}
	return cli.UntilStopped(cmd)
}

func (f *flags) listenSLIP(ctx context.Context, address, agent, file string, w *wanted) error {
	table, err := readTable(file)
	if err != nil {
		return err
	}
	codec, err := slipjson.New(table)
	if err != nil {
		return err
	}
	return client.SLIPListener{
		Connect: func(ctx context.Context, set *all.Set) (*client.Client, error) { return f.dialAs(ctx, address, set) },
		Agent:   agent, Anchors: table, Count: w.count, Silence: f.timeout,
		Heard: func(m client.SLIPMessage) error {
			w.came.Add(1)
			return f.printHeard(codec, m)
		},
		Attached: func(on *client.Client) {
			f.warnf("agent %s at %s", agent, on.Peer().Identity)
		},
		Lost: func(err error, pause time.Duration) {
			f.warnf("%s; again in %v", lost(err), pause.Round(time.Millisecond))
		},
	}.Listen(ctx)
}

// printedSLIP is a message as JSON.
type printedSLIP struct {
	Wire    string          `json:"wire"`
	Message json.RawMessage `json:"message"`
	Handles []string        `json:"handles,omitempty"`
}

func (f *flags) printHeard(codec *slipjson.Codec, m client.SLIPMessage) error {
	var err error
	switch {
	case f.asJSON:
		p := printedSLIP{Wire: m.Text}
		if p.Message, err = codec.Decode(slipjson.Auto, []byte(m.Text)); err != nil {
			return err
		}
		for _, meaning := range m.Handles {
			p.Handles = append(p.Handles, meaning.String())
		}
		err = f.printJSON(p)
	case isTerminal(f.out):
		_, err = fmt.Fprintln(f.out, visible(m.Text))
	default:
		_, err = fmt.Fprintln(f.out, m.Text)
	}
	if err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}
