package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/policyhint"
)

func newPolicy(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Set conditions for the work of an endpoint",
		Long: `Set conditions for the work of an endpoint: no_external_network and no_pii (true or
false), region (names separated by commas), cost_limit (a number, optionally with a
unit). A hint is KEY=VALUE:MODE; the default mode is MUST. Work that would violate a
MUST is refused; SHOULD and MAY are forwarded to the servers and workers.

Other commands send hints before their requests with --policy.`,
		Example: `  swp-client policy set swp+tls://127.0.0.1:7777 region=eu:MUST cost_limit=0.05:SHOULD
  swp-client --policy region=eu --policy no_external_network=true mcp call swp+tls://127.0.0.1:7777/files read_file path=/srv/a.txt`,
	}
	cmd.AddCommand(newPolicySet(f))
	return cmd
}

func newPolicySet(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set ADDR KEY=VALUE[:MODE]...",
		Short: "Set hints and print whether the endpoint accepts them",
		Long: `Set hints, all or none, and print whether the endpoint accepts them. They end with the
connection, so this command is for testing an endpoint.`,
		Example: `  swp-client policy set swp+tls://127.0.0.1:7777 region=eu,ch no_pii=true:SHOULD
  swp-client policy set swp+tls://127.0.0.1:7777 cost_limit='0.05 EUR' --scope target:files --json`,
	}
	scope := cmd.Flags().String("scope", "", "connection, task:<hex>, rpc:<hex> or target:<name> (default connection)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		hints, err := parseHints("KEY=VALUE[:MODE]", *scope, args[1:])
		if err != nil {
			return err
		}
		return f.on(cmd.Context(), args[0], func(ctx context.Context, c *client.Client) error {
			if err := f.setHints(ctx, c, hints); err != nil {
				return err
			}
			if f.asJSON {
				return f.printJSON(map[string]any{"set": printHints(hints)})
			}
			for _, h := range hints {
				f.printf("%s=%s:%v %s\n", visible(h.Key), visible(h.Value), h.Mode, visible(h.Scope))
			}
			return nil
		})
	}
	return takes(cmd, connects, traces, hints)
}

type printedHint struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	Mode  string `json:"mode"`
	Scope string `json:"scope_ref"`
}

func printHints(hints []profiles.Hint) []printedHint {
	list := make([]printedHint, len(hints))
	for i, h := range hints {
		list[i] = printedHint{h.Key, h.Value, h.Mode.String(), h.Scope}
	}
	return list
}

// parseHints reads hints from the command line. Without a mode they are MUST.
func parseHints(what, scope string, texts []string) ([]profiles.Hint, error) {
	list := make([]profiles.Hint, len(texts))
	for i, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, &usageError{fmt.Sprintf("%s: %.80q has no value", what, text)}
		}
		h := profiles.Hint{Key: key, Value: value, Mode: profiles.Must, Scope: scope}
		if end := strings.LastIndexByte(value, ':'); end >= 0 {
			if mode, ok := profiles.ParseMode(value[end+1:]); ok {
				h.Value, h.Mode = value[:end], mode
			}
		}
		if hint := policyhint.KeyFor(key); hint != "" && hint != key {
			return nil, &usageError{fmt.Sprintf("%s: %s is what a target declares; the hint is %s", what, key, hint)}
		}
		checked, err := policyhint.Check(h)
		if err != nil {
			return nil, &usageError{what + ": " + plain.Text(profiles.AsError(err).Text)}
		}
		list[i] = checked
	}
	return list, nil
}

// setHints sets hints on a connection, and says more about why not.
func (f *flags) setHints(ctx context.Context, c *client.Client, hints []profiles.Hint) error {
	err := c.SetHints(ctx, hints...)
	violation := (*policyhint.ViolationError)(nil)
	switch {
	case !errors.As(err, &violation):
		return err
	case violation.Reason == policyhint.ReasonUnknownKey:
		return advise(err, fmt.Sprintf("Nobody there could keep to that key; with SHOULD or MAY it would be passed on. This program knows: %s.", strings.Join(policyhint.Keys(), ", ")))
	case violation.Reason == policyhint.ReasonConflict:
		return advise(err, "A hint with MUST and another value is there already.")
	}
	return err
}

// stopped takes note that a hint of ours has stopped an action. A command that runs until
// it is told to stop says so at once; another one at its end, unless its error says so.
func (f *flags) stopped(v *policyhint.ViolationError) {
	f.stops.LoadOrStore(*v, false)
	if f.running == nil || cli.RunsUntilStopped(f.running) {
		f.sayStopped("")
	}
}

// sayStopped says which hints have stopped an action, each once, in the words of the
// endpoint, and leaves out those that an error says.
func (f *flags) sayStopped(err string) {
	f.stops.Range(func(key, said any) bool {
		v := key.(policyhint.ViolationError) //nolint:forcetypeassert // stopped stores no other
		text := (&profiles.Violation{Key: v.Key, Scope: v.Scope, Reason: v.Reason}).Text()
		if said == false && f.stops.CompareAndSwap(key, false, true) && !strings.Contains(err, text) {
			f.warnf("%s", text)
		}
		return true
	})
}
