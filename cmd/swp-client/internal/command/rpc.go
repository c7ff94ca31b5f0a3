package command

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/internal/jsonobject"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/rpc"
)

func newRPC(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rpc",
		Short: "Call methods of an endpoint",
		Long: `Call methods of an endpoint. PARAMS are sent unchanged; @FILE reads them from a
file, - from standard input. Results are printed unchanged; on a terminal a line break
is added, and control characters are escaped.

If the method fails, the exit code is 1.

--timeout and Ctrl-C cancel the call, unless it has an --idempotency-key: then it
continues at the endpoint, and the same command with the same key asks for its
outcome. --deadline ends the call at the endpoint; the timeout is then its outcome,
also for this key.`,
		Example: `  swp-client rpc call swp+tls://127.0.0.1:7777 swp.info
  swp-client rpc call swp+quic://127.0.0.1:7777 orders.create @order.json --idempotency-key 7f9c1e
  swp-client rpc stream swp+tcp://127.0.0.1:7777 demo.stream.count '{"count":3}'`,
	}
	cmd.AddCommand(newRPCCall(f), newRPCStream(f))
	return cmd
}

// rpcFlags are the flags of a call.
type rpcFlags struct {
	key      string
	deadline time.Duration
}

func (r *rpcFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.key, "idempotency-key", "", "the same call with the same `key` runs once")
	cmd.Flags().DurationVar(&r.deadline, "deadline", 0, "time after which the endpoint ends the call; the timeout is its outcome; 0 = never")
}

// goesOn is what becomes of a call under a key that was left.
const goesOn = "If the call has reached the endpoint, it continues there; the same command with the same --idempotency-key asks for its outcome."

// params reads what a call is made with.
func (f *flags) params(args []string) ([]byte, error) {
	if len(args) < 3 {
		return nil, nil
	}
	return f.readInput(args[2])
}

// rpc connects and makes one call.
func (f *flags) rpc(ctx context.Context, args []string, r rpcFlags, item func([]byte) error) (*client.RPCOutcome, error) {
	if len(r.key) > 256 {
		return nil, &usageError{fmt.Sprintf("--idempotency-key has %d octets, want at most 256", len(r.key))}
	}
	if r.deadline < 0 {
		return nil, &usageError{fmt.Sprintf("--deadline %v is negative", r.deadline)}
	}
	params, err := f.params(args)
	if err != nil {
		return nil, err
	}
	c, err := f.dial(ctx, args[0])
	if err != nil {
		return nil, err
	}
	silence := f.timeout
	if r.deadline > 0 {
		silence = max(silence, r.deadline+2*time.Second) // the endpoint is to be heard first
	}
	out, err := c.CallRPC(ctx, client.RPC{
		Method: args[1], Params: params, Key: r.key, Silence: silence, Deadline: r.deadline, Item: item,
	})
	if err != nil {
		c.Finish() // an RPC_REQ or an RPC_CANCEL may be on its way
		if r.key != "" && len(out.RPCID) > 0 {
			err = errors.Join(err, errors.New(goesOn))
		}
	} else {
		if out.Err != nil && out.Err.Code == rpc.CodeUnknownMethod {
			f.advice = f.otherMethods(ctx, c, args)
		}
		c.Close()
	}
	return out, err
}

// otherMethods returns advice for an unknown method: the one with the most similar name, and
// the command that lists all.
func (f *flags) otherMethods(ctx context.Context, c *client.Client, args []string) string {
	method := args[1]
	cut := strings.LastIndexByte(method, '/') + 1
	partner, name := method[:cut], method[cut:] // partner/name is the method of a partner
	known, info := all.Open(), rpc.Info{}
	out, err := c.CallRPC(ctx, client.RPC{Method: partner + rpc.MethodInfo, Silence: f.timeout})
	if err == nil && out.Err == nil && json.Unmarshal(out.Result, &info) == nil {
		known = append(known, info.Methods...)
	}
	if slices.Contains(known, name) { // its back end does not know it
		return ""
	}
	text := unknown("method", partner, name, known)
	text += "\nBuilt-in methods: " + strings.Join(all.Open(), ", ")
	return text + "\nThe other methods that this identity may call are in \"methods\" of: " + f.commandLine("rpc", "call", args[0], partner+rpc.MethodInfo)
}

func newRPCCall(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "call ADDR[/PARTNER] METHOD [PARAMS|@FILE|-]",
		Short: "Call a method and print its result",
		Long: `Call a method and print its result. Earlier stream items are counted on a terminal and
listed with --json. --timeout is the maximum silence of the method: items restart it.`,
		Example: `  swp-client rpc call swp+tls://127.0.0.1:7777 swp.echo hello
  swp-client rpc call swp+tls://127.0.0.1:7777 orders.create @order.json --idempotency-key 7f9c1e --json
  swp-client rpc call swp+tls://127.0.0.1:7777 reports.build - --deadline 5m <query.json >report.pdf`,
	}
	var r rpcFlags
	r.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		items, octets := []any{}, 0
		count, progress := 0, f.showsProgress()
		out, err := f.rpc(cmd.Context(), args, r, func(item []byte) error {
			count++
			switch {
			case f.asJSON:
				if octets += len(item); octets > maxItems {
					return fmt.Errorf("the items have more than %d octets; print them as they arrive with: rpc stream", maxItems)
				}
				items = append(items, readable(item))
			case progress:
				_, _ = fmt.Fprintf(f.errOut, "\r%s", plain.Count(count, "item"))
			}
			return nil
		})
		if progress && count > 0 && !f.asJSON {
			_, _ = fmt.Fprintf(f.errOut, "\r\x1b[K")
		}
		if err != nil {
			return err
		}
		if f.asJSON {
			return errors.Join(f.printJSON(called(out, items)), failed(out))
		}
		if out.Err == nil {
			f.printOctets(out.Result)
		}
		return failed(out)
	}
	return takes(cmd, connects, traces, hints, chains)
}

// maxItems bounds the items that call --json collects, in octets.
const maxItems = 64 << 20

func newRPCStream(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stream ADDR[/PARTNER] METHOD [PARAMS|@FILE|-]",
		Short: "Call a method and print its stream items as they come",
		Long: `Call a method and print its stream items as they arrive, a line each, and the result
as the last line. With --json each line is an object. --timeout is the maximum silence
of the method: items restart it.`,
		Example: `  swp-client rpc stream swp+tcp://127.0.0.1:7777 demo.stream.count '{"count":3}'
  swp-client rpc stream --json --timeout 5m swp+tls://127.0.0.1:7777 builds.watch '{"id":7}'`,
	}
	var r rpcFlags
	r.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		out, err := f.rpc(cmd.Context(), args, r, func(item []byte) error {
			if f.asJSON {
				return f.printJSON(map[string]any{"item": readable(item)})
			}
			f.printLine(item)
			return nil
		})
		switch {
		case err != nil:
			return err
		case f.asJSON:
			err = f.printJSON(called(out, nil))
		case out.Err == nil && len(out.Result) > 0:
			f.printLine(out.Result)
		}
		return errors.Join(err, failed(out))
	}
	return takes(cmd, connects, traces, hints, chains)
}

// rpcCalled is the end of a call as JSON.
type rpcCalled struct {
	RPCID  string    `json:"rpc_id"`
	Items  []any     `json:"items,omitempty"`
	Result any       `json:"result,omitempty"`
	Error  *rpcError `json:"error,omitempty"`
}

type rpcError struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
	client.Author
}

func called(out *client.RPCOutcome, items []any) rpcCalled {
	c := rpcCalled{RPCID: hex.EncodeToString(out.RPCID), Items: items}
	if e := out.Err; e != nil {
		c.Error = &rpcError{e.Code, e.Message, e.Retryable, out.By}
	} else {
		c.Result = readable(out.Result)
	}
	return c
}

// failed is the error of a method for people.
func failed(out *client.RPCOutcome) error {
	if out.Err == nil {
		return nil
	}
	again := "not retryable"
	if out.Err.Retryable {
		again = "retryable: the same call may succeed later"
	}
	message := out.Err.Message
	if out.Err.Endpoint != "" { // and not of the method
		message = plain.Text(message)
	}
	text := fmt.Sprintf("%s: %s (%s)", visible(out.Err.Code), visible(message), again)
	if by := out.By.Said(out.Err.Code); by != "" {
		text += "\n" + visible(by)
	} else if out.Err.Code != rpc.CodeUnauthorized {
		return errors.New(text)
	}
	return &client.AnswerError{Text: text, Code: out.Err.Code, By: out.By}
}

// readable is octets as JSON: JSON unchanged, other text as a string, anything
// else as {"base64": …}.
func readable(octets []byte) any {
	switch {
	case jsonobject.Valid(octets):
		return json.RawMessage(octets)
	case utf8.Valid(octets):
		return string(octets)
	}
	return map[string][]byte{"base64": octets}
}

// printOctets prints octets unchanged, but as text for a person.
func (f *flags) printOctets(octets []byte) {
	if isTerminal(f.out) {
		f.printLine(octets)
		return
	}
	_, _ = f.out.Write(octets)
}

// printLine prints octets as a line.
func (f *flags) printLine(octets []byte) {
	if isTerminal(f.out) {
		octets = []byte(visible(string(octets)))
	}
	_, _ = f.out.Write(append(slices.Clip(octets), '\n'))
}

// showsProgress says whether somebody watches.
func (f *flags) showsProgress() bool { return isTerminal(f.errOut) }

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
