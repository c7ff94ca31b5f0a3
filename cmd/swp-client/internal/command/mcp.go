package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/profiles"
)

func newMCP(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Use the MCP servers behind an endpoint",
		Example: `  swp-client mcp list swp+tls://127.0.0.1:7777
  swp-client mcp call swp+tls://127.0.0.1:7777/files read_file path=/srv/files/a.txt
  swp-client mcp stdio swp+quic://127.0.0.1:7777/files
  swp-client mcp http swp+tls://127.0.0.1:7777/files --listen 127.0.0.1:8080`,
	}
	cmd.AddCommand(newMCPList(f), newMCPCall(f), newMCPStdio(f), newMCPHTTP(f))
	return cmd
}

// serverFlag adds --server.
func serverFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("server", "", "`name` of the server, if it is neither in the address nor the default")
}

// openMCP connects to a server and finds out how it wants to be spoken to.
func (f *flags) openMCP(ctx context.Context, address, server string) (m *client.MCP, done func(), err error) {
	at, target, err := behind(address, "--server", server)
	if err != nil {
		return nil, nil, err
	}
	c, err := f.dial(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	opening, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	if m, err = c.OpenMCP(opening, target); err != nil {
		c.Close()
		return nil, nil, err
	}
	return m, func() {
		closing, cancel := context.WithTimeout(context.Background(), f.timeout)
		defer cancel()
		m.Close(closing)
		c.Finish() // the notification that cancels a call may be on its way
	}, nil
}

func newMCPList(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list ADDR[/SERVER]",
		Short: "List the tools of a server",
		Example: `  swp-client mcp list swp+tls://127.0.0.1:7777
  swp-client mcp list --json swp+quic://127.0.0.1:7777/files`,
	}
	server := serverFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, done, err := f.openMCP(cmd.Context(), args[0], *server)
		if err != nil {
			return err
		}
		defer done()
		ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
		defer cancel()
		tools, err := m.Tools(ctx)
		if err != nil {
			return err
		}
		if f.asJSON {
			raw := make([]json.RawMessage, len(tools))
			for i := range tools {
				raw[i] = tools[i].Octets
			}
			return f.printJSON(struct {
				Version string            `json:"protocolVersion"`
				Tools   []json.RawMessage `json:"tools"`
			}{m.Version, raw})
		}
		return f.printTools(tools)
	}
	return takes(cmd, connects, traces, hints, chains)
}

func (f *flags) printTools(tools []client.Tool) error {
	w := tabwriter.NewWriter(f.out, 0, 0, 2, ' ', 0)
	for i := range tools {
		t := &tools[i]
		about := t.Description
		if about == "" {
			about = t.Title
		}
		about, _, _ = strings.Cut(strings.TrimSpace(about), "\n")
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", visible(t.Name), visible(arguments(t)), visible(about))
	}
	return f.listed(w.Flush(), len(tools), "tool")
}

// arguments names what a tool takes: those it needs as name, the others as [name].
func arguments(t *client.Tool) string {
	var names []string
	for name := range t.InputSchema.Properties {
		if !slices.Contains(t.InputSchema.Required, name) {
			name = "[" + name + "]"
		}
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if optional := strings.HasPrefix(a, "["); optional != strings.HasPrefix(b, "[") {
			if optional {
				return 1
			}
			return -1
		}
		return strings.Compare(a, b)
	})
	return strings.Join(names, " ")
}

func newMCPCall(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "call ADDR[/SERVER] TOOL [NAME=VALUE|NAME:=JSON]...",
		Short: "Call a tool",
		Long: `Call a tool and print its answer. NAME=VALUE is converted to the type in the tool's
schema; NAME:=JSON is sent unchanged; --args has all arguments. --timeout is the
maximum silence of the server: progress notifications restart it. With --json the
result is printed unchanged. If the tool itself reports an error, the exit code is 1.`,
		Example: `  swp-client mcp call swp+tls://127.0.0.1:7777 add a=1 b=2
  swp-client mcp call swp+tls://127.0.0.1:7777/files write_file path=/a.txt 'tags:=["x","y"]'
  swp-client mcp call --json swp+quic://127.0.0.1:7777 add --args '{"a":1,"b":2}'`,
	}
	server := serverFlag(cmd)
	given := cmd.Flags().String("args", "", "all arguments as a `JSON` object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *given != "" && len(args) > 2 {
			return &usageError{"--args and NAME=VALUE exclude each other"}
		}
		if err := isTool(args); err != nil {
			return err
		}
		m, done, err := f.openMCP(cmd.Context(), args[0], *server)
		if err != nil {
			return err
		}
		defer done()
		var arguments any
		if *given != "" {
			if arguments, err = objectOf(*given); err != nil {
				return err
			}
		} else if arguments, err = f.typed(cmd.Context(), m, args[1], args[2:]); err != nil {
			return err
		}
		return f.call(cmd.Context(), m, args[1], arguments)
	}
	return takes(cmd, connects, traces, hints, chains)
}

// isTool refuses an argument in the place of the tool: no name of a tool has an "=".
func isTool(args []string) error {
	if !strings.Contains(args[1], "=") {
		return nil
	}
	err := fmt.Sprintf("%.80q is an argument, and stands where the name of the tool should", args[1])
	if at := strings.LastIndexByte(args[0], '/'); at > strings.Index(args[0], "://")+2 {
		err += fmt.Sprintf("; write the tool after the address: swp-client mcp call %s %s %s", args[0][:at], args[0][at+1:], strings.Join(args[1:], " "))
	}
	return &usageError{err}
}

func objectOf(text string) (json.RawMessage, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		return nil, &usageError{fmt.Sprintf("--args %.80q is not a JSON object", text)}
	}
	return json.RawMessage(text), nil
}

// typed reads NAME=VALUE arguments by the types in the schema of the tool.
func (f *flags) typed(ctx context.Context, m *client.MCP, name string, pairs []string) (map[string]any, error) {
	out := make(map[string]any, len(pairs))
	if len(pairs) == 0 {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	tools, err := m.Tools(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(tools, func(t client.Tool) bool { return t.Name == name })
	if i < 0 {
		var names []string
		for i := range tools {
			names = append(names, tools[i].Name)
		}
		return nil, &client.AnswerError{
			Text: fmt.Sprintf("the server has no tool %q that this identity may use; it may use: %s", name, cmp.Or(visible(strings.Join(names, ", ")), "none")),
			Code: profiles.NotFound.String(),
		}
	}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, &usageError{fmt.Sprintf("argument %q, want NAME=VALUE or NAME:=JSON", pair)}
		}
		if raw, isJSON := strings.CutSuffix(key, ":"); isJSON {
			if !json.Valid([]byte(value)) {
				return nil, &usageError{fmt.Sprintf("argument %s: %.80q is not JSON", raw, value)}
			}
			out[raw] = json.RawMessage(value)
			continue
		}
		property, known := tools[i].InputSchema.Properties[key]
		if known && property.Type != "string" && property.Type != nil && json.Valid([]byte(value)) {
			out[key] = json.RawMessage(value)
			continue
		}
		out[key] = value
	}
	return out, nil
}

// toolResult is the outcome of a tool, as far as it is shown to people.
type toolResult struct {
	Content []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		MIMEType string `json:"mimeType"`
		Data     string `json:"data"`
		URI      string `json:"uri"`
		Resource struct {
			URI  string `json:"uri"`
			Text string `json:"text"`
		} `json:"resource"`
	} `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
}

func (f *flags) call(ctx context.Context, m *client.MCP, tool string, arguments any) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(f.timeout, func() {
		cancel(&client.SilentError{For: f.timeout})
	})
	defer silent.Stop()
	result, err := m.Call(ctx, "tools/call", map[string]any{
		"name": tool, "arguments": arguments, "_meta": map[string]any{"progressToken": "swp-client"},
	}, func(octets []byte) {
		silent.Reset(f.timeout)
		f.progress(octets)
	})
	if err != nil {
		return err
	}
	var r toolResult
	if err := json.Unmarshal(result, &r); err != nil {
		return fmt.Errorf("the result of %s is not one of a tool: %w", tool, err)
	}
	if f.asJSON {
		f.printf("%s\n", result)
	} else {
		f.printResult(&r)
	}
	if r.IsError {
		return errors.New("the tool reports an error")
	}
	return nil
}

func (f *flags) printResult(r *toolResult) {
	for i := range r.Content {
		switch c := &r.Content[i]; c.Type {
		case "text":
			f.printf("%s\n", visible(c.Text))
		case "resource":
			f.printf("[resource %s]\n%s\n", visible(c.Resource.URI), visible(c.Resource.Text))
		case "resource_link":
			f.printf("[resource %s]\n", visible(c.URI))
		default:
			f.printf("[%s %s, %d characters of base64; --json prints them]\n", visible(c.Type), visible(c.MIMEType), len(c.Data))
		}
	}
	if len(r.Content) == 0 && len(r.Structured) > 0 {
		f.printf("%s\n", visible(string(r.Structured)))
	}
}

// progress shows a progress or log notification, away from the result.
func (f *flags) progress(octets []byte) {
	var n struct {
		Method string `json:"method"`
		Params struct {
			Progress json.Number `json:"progress"`
			Total    json.Number `json:"total"`
			Message  string      `json:"message"`
		} `json:"params"`
	}
	if f.asJSON || json.Unmarshal(octets, &n) != nil || n.Method != "notifications/progress" {
		return
	}
	of := ""
	if n.Params.Total != "" {
		of = "/" + n.Params.Total.String()
	}
	_, _ = fmt.Fprintf(f.errOut, "progress %s%s %s\n", n.Params.Progress, of, visible(n.Params.Message))
}

func newMCPStdio(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stdio ADDR[/SERVER]",
		Short: "Serve a remote MCP server on standard input and output",
		Long: `Serve a remote MCP server on standard input and output, so that any MCP client can use
it by naming this command. Messages are forwarded octet for octet. When standard input
ends, calls in flight are answered first; --timeout is then the maximum silence of the
server.

Lost connections are hidden from the client: the next message is sent over a new one.
If the endpoint cannot be reached, this tries for ten seconds; after that each further
message is tried once. A call in flight is answered with an error, because it may have
been executed. A session (MCP up to 2025-11-25) is kept alive. If the endpoint has
restarted, the session is opened again with the client's messages, unless the server has
changed. -v reports lost connections.

As an entry of mcpServers:

  "files": {"command": "swp-client", "args": ["mcp", "stdio", "swp+tls://edge.example:7777/files"]}`,
		Example: `  swp-client mcp stdio swp+tls://127.0.0.1:7777/files`,
	}
	server := serverFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		at, target, err := behind(args[0], "--server", *server)
		if err != nil {
			return err
		}
		peer := f.keep(at)
		defer peer.Close()
		return client.Stdio(cmd.Context(), client.StdioOptions{
			Peer: peer, Target: target, In: f.in, Out: f.out, Drain: f.timeout,
			Complain: func(text string) { f.warnf("%s", plain.Text(text)) },
		})
	}
	return cli.UntilStopped(takes(cmd, connects, traces, hints, chains))
}
