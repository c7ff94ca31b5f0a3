package command

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/obs"
)

func newOBS(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "obs",
		Short: "Set and read the trace context of a connection",
		Long: `Set and read the W3C trace context of a connection at the endpoint.

Commands that send requests have --traceparent and --tracestate too, by default from
TRACEPARENT and TRACESTATE: what they ask for is then part of that trace, at partners
and back ends as well. They need no "obs set".`,
		Example: `  swp-client obs set swp+tls://127.0.0.1:7777 --traceparent 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
  swp-client obs get swp+quic://127.0.0.1:7777 --json
  TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 swp-client ping swp+tls://127.0.0.1:7777`,
	}
	cmd.AddCommand(newOBSSet(f), newOBSGet(f))
	return cmd
}

func newOBSSet(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set ADDR",
		Short: "Set a trace context and print the result at the endpoint",
		Long: `Set the trace context of --traceparent and --tracestate (or of the environment), ask
the endpoint for it on the same connection, and print the answer. With an id it applies
to that exchange only, otherwise to the connection. It ends with the connection, so
this command is for testing an endpoint. An id is text, or octets as hex:….`,
		Example: `  swp-client obs set swp+tls://127.0.0.1:7777 --traceparent 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
  swp-client obs set swp+quic://127.0.0.1:7777 --traceparent 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 --tracestate congo=t61 --task-id hex:0102 --json`,
	}
	msgID := cmd.Flags().String("msg-id", "", "`id` of the message that it belongs to")
	taskID := cmd.Flags().String("task-id", "", "`id` of the task that it belongs to")
	rpcID := cmd.Flags().String("rpc-id", "", "`id` of the call that it belongs to")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		t, _, err := f.trace()
		if err != nil {
			return err
		}
		if t.Parent == "" {
			return &usageError{"--traceparent is missing, and TRACEPARENT is not set"}
		}
		var ids obs.IDs
		for _, id := range []struct {
			flag, text string
			octets     *[]byte
		}{{"--msg-id", *msgID, &ids.MsgID}, {"--task-id", *taskID, &ids.TaskID}, {"--rpc-id", *rpcID, &ids.RPCID}} {
			if *id.octets, err = octetsOf(id.flag, id.text); err != nil {
				return err
			}
		}
		c, err := f.dialOnly(cmd.Context(), args[0], nil)
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
		defer cancel()
		if err := c.SetTrace(ctx, t, ids); err != nil {
			return err
		}
		return f.printLast(ctx, c)
	}
	return takes(cmd, connects, traces)
}

func newOBSGet(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get ADDR",
		Short: "Print the trace context of a connection",
		Long: `Send the trace context of --traceparent and --tracestate (or of the environment), as
other commands do before their requests, and print the last one that the endpoint has
read on this connection. Without a trace context nothing is sent or printed.`,
		Example: `  swp-client obs get swp+tls://127.0.0.1:7777
  swp-client obs get swp+tls://127.0.0.1:7777 --traceparent 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 --json`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.on(cmd.Context(), args[0], f.printLast)
	}
	return cmd
}

// printed is a trace context as JSON. Ids are in hex.
type printed struct {
	Parent string `json:"traceparent,omitempty"`
	State  string `json:"tracestate,omitempty"`
	MsgID  string `json:"msg_id,omitempty"`
	TaskID string `json:"task_id,omitempty"`
	RPCID  string `json:"rpc_id,omitempty"`
}

// printLast asks the endpoint what it has, and prints it.
func (f *flags) printLast(ctx context.Context, c *client.Client) error {
	t, ids, err := c.LastTrace(ctx)
	if err != nil {
		return err
	}
	p := printed{t.Parent, t.State, hex.EncodeToString(ids.MsgID), hex.EncodeToString(ids.TaskID), hex.EncodeToString(ids.RPCID)}
	if f.asJSON {
		return f.printJSON(p)
	}
	if p == (printed{}) {
		f.printf("none\n")
	}
	for _, line := range []struct{ name, value string }{
		{"traceparent", p.Parent}, {"tracestate", p.State}, {"msg_id hex", p.MsgID}, {"task_id hex", p.TaskID}, {"rpc_id hex", p.RPCID},
	} {
		if line.value != "" {
			f.printf("%s: %s\n", line.name, visible(line.value))
		}
	}
	return nil
}

// octetsOf reads an id from the command line: text, or octets after hex:.
func octetsOf(flag, text string) ([]byte, error) {
	digits, isHex := strings.CutPrefix(text, "hex:")
	if !isHex {
		return []byte(text), nil
	}
	octets, err := hex.DecodeString(digits)
	if err != nil {
		return nil, &usageError{fmt.Sprintf("%s %.80q: not hexadecimal", flag, text)}
	}
	return octets, nil
}

// trace returns the trace context to join, or zero: that of the flags, which
// must be valid, or that of the environment, which others have set and which is
// ignored if invalid.
func (f *flags) trace() (t profiles.Trace, asked bool, err error) {
	t = profiles.Trace{Parent: f.traceparent, State: f.tracestate}
	if t != (profiles.Trace{}) {
		if err := obs.Check(t); err != nil {
			return t, true, &usageError{"--traceparent and --tracestate: " + profiles.AsError(err).Text}
		}
		return t, true, nil
	}
	t = profiles.Trace{Parent: os.Getenv("TRACEPARENT"), State: os.Getenv("TRACESTATE")}
	if err := obs.Check(t); err != nil {
		f.remark("TRACEPARENT and TRACESTATE are left alone: %s", plain.Text(profiles.AsError(err).Text))
		return profiles.Trace{}, false, nil
	}
	return t, false, nil
}

// join has what is done on a connection from now on join the trace. Only where
// that was asked for is it a failure if the endpoint does not want to.
func (f *flags) join(ctx context.Context, c *client.Client) error {
	t, asked, err := f.trace()
	if err != nil || t.Parent == "" {
		return err
	}
	err = c.SetTrace(ctx, t, obs.IDs{})
	if fault := (*profiles.Error)(nil); err != nil && !asked && errors.As(err, &fault) {
		f.remark("the trace is not joined: %s", plain.Text(fault.Text))
		return nil
	}
	return err
}

// remark says what is of interest to those who ask for more than results.
func (f *flags) remark(format string, args ...any) {
	if f.verbose {
		f.warnf(format, args...)
	}
}
