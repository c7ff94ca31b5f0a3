package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/slimwire/swp/cmd/internal/cli/clitest"
	"github.com/slimwire/swp/cmd/swp-client/internal/command"
	"github.com/slimwire/swp/daemon"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
)

// programEnv makes this test binary one of the programs below.
const programEnv = "SWP_TEST_PROGRAM"

var programs = map[string]func(){
	"swp-client": func() { os.Exit(swpClient(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	"swpd":       swpd,
	"mcpserver":  mcpServer,
	"pki":        pki,
	"token":      tokens,
}

func TestMain(m *testing.M) {
	if run, ok := programs[os.Getenv(programEnv)]; ok {
		run()
		os.Exit(0)
	}
	testscript.Main(m, programs)
}

func swpClient(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return command.Main("v1.2.3", args, stdin, stdout, stderr)
}

// swpd FILE ADDRFILE serves the configuration until it is interrupted.
func swpd() {
	c, err := config.Load(os.Args[1], os.Environ())
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		err = daemon.Run(ctx, daemon.Options{Config: c, Version: "test", AddrFile: os.Args[2]})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// pki DIR NAME makes a development identity.
func pki() {
	if err := devpki.Create(os.Args[1], devpki.Options{Name: os.Args[2]}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// mcpServer is an MCP server on the official SDK, in the era that the
// environment asks for.
func mcpServer() {
	o := &mcp.ServerOptions{}
	if os.Getenv("ERA") == "legacy" {
		o.SupportedProtocolVersions = []string{"2025-11-25"}
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, o)
	type args struct {
		Text  string `json:"text,omitempty"`
		Count int    `json:"count,omitempty"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "says it\x1b[31m again"}, func(_ context.Context, _ *mcp.CallToolRequest, in args) (*mcp.CallToolResult, any, error) {
		return text(strings.TrimSpace(strings.Repeat(in.Text+" ", max(1, in.Count)))), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "fail", Description: "fails"}, func(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, any, error) {
		return nil, nil, errors.New("it went wrong")
	})
	mcp.AddTool(s, &mcp.Tool{Name: "steps", Description: "reports progress"}, func(ctx context.Context, req *mcp.CallToolRequest, in args) (*mcp.CallToolResult, any, error) {
		for i := range in.Count {
			err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1), Total: float64(in.Count), Message: "step",
			})
			if err != nil {
				return nil, nil, err
			}
		}
		return text("all done"), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "wait", Description: "ends when it is cancelled"}, func(ctx context.Context, _ *mcp.CallToolRequest, in args) (*mcp.CallToolResult, any, error) {
		if err := os.WriteFile(in.Text, []byte("waiting"), 0o600); err != nil {
			return nil, nil, err
		}
		<-ctx.Done()
		return nil, nil, os.WriteFile(in.Text, []byte("cancelled"), 0o600)
	})
	mcp.AddTool(s, &mcp.Tool{Name: "roots", Description: "asks the client"}, func(ctx context.Context, req *mcp.CallToolRequest, _ args) (*mcp.CallToolResult, any, error) {
		list, err := req.Session.ListRoots(ctx, nil) //nolint:staticcheck // deprecated by 2026-07-28; this is the older era
		if err != nil {
			return nil, nil, err
		}
		return text(list.Roots[0].URI), nil, nil
	})
	if file := os.Getenv("GROW"); file != "" {
		go func() {
			for _, name := range awaitLines(file, 1) {
				s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					return text("grown"), nil
				})
			}
		}()
	}
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		os.Exit(1)
	}
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func TestScripts(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := testscript.Params{
		Dir:      "testdata",
		Deadline: time.Now().Add(9 * time.Minute),
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_DATA_HOME", e.WorkDir+"/xdg")
			e.Setenv("SELF", self)
			if err := devpki.Create(e.WorkDir+"/pki", devpki.Options{}); err != nil {
				return err
			}
			return os.WriteFile(e.WorkDir+"/swpd.yaml", []byte(serverYAML(self)), 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"addresses": addresses,
		},
	}
	clitest.Add(t, &p, clitest.Programs{"swp-client": swpClient})
	testscript.Run(t, p)
}

// serverYAML configures a swpd with a listener of each kind and an MCP server of
// each era.
func serverYAML(self string) string {
	return fmt.Sprintf(`identity: {cert: pki/server.crt, key: pki/server.key}
trust: {ca: [pki/ca.crt]}
listeners:
  - address: swp+tls://127.0.0.1:0
  - address: swp+quic://127.0.0.1:0
  - address: swp+tcp://127.0.0.1:0
admin: off
data: data
access:
  rules: [{identity: ["spiffe://localhost/**", loopback]}]
  agents: [{identity: ["spiffe://localhost/**", loopback], agent_ids: "**"}]
mcp:
  servers:
    modern: {command: %[1]s, env: {%[2]s: mcpserver}, default: true}
    legacy: {command: %[1]s, env: {%[2]s: mcpserver, ERA: legacy}}
`, self, programEnv)
}

// addresses FILE waits until swpd has written its addresses and sets TLS, QUIC
// and TCP to them.
func addresses(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: addresses FILE")
	}
	lines := awaitLines(ts.MkAbs(args[0]), 3)
	if len(lines) < 3 {
		ts.Fatalf("%s was not written", args[0])
	}
	for i, name := range []string{"TLS", "QUIC", "TCP"} {
		ts.Setenv(name, lines[i])
	}
}

// awaitLines waits for another process to write a file: there is nothing else to
// wait on.
func awaitLines(name string, n int) []string {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if b, err := os.ReadFile(name); err == nil {
			if lines := strings.Fields(string(b)); len(lines) >= n {
				return lines
			}
		}
	}
	return nil
}
