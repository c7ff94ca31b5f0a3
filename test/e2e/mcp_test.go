package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/slimwire/swp/internal/effort"
)

// connect starts `swp-client mcp stdio` as the command of an unmodified SDK
// client, which takes it for a local MCP server.
func connect(t *testing.T, n *node, addr string, opts *mcp.ClientOptions, setup func(*mcp.Client)) *mcp.ClientSession {
	t.Helper()
	cmd := n.client("mcp", "stdio", addr)
	cmd.Stderr = os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, opts)
	if setup != nil {
		setup(client)
	}
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return session
}

// each runs a test against both example servers over both transports.
func each(t *testing.T, f func(t *testing.T, n *node, addr string)) {
	n := start(t, examples(t)...)
	for name, addr := range n.transports() {
		for _, server := range []string{"modern", "legacy"} {
			t.Run(name+"/"+server, func(t *testing.T) { f(t, n, addr+"/"+server) })
		}
	}
}

func examples(t *testing.T) []server {
	t.Helper()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return []server{{name: "modern", command: bin + "/mcp-modern"}, {name: "legacy", command: bin + "/mcp-legacy"}}
}

func TestUnmodifiedClientListsAndCallsTools(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node, addr string) {
		s := connect(t, n, addr, nil, nil)
		list, err := s.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
		}
		for _, want := range []string{"echo", "add", "slow"} {
			if !slices.Contains(names, want) {
				t.Errorf("tools %q, want %q among them", names, want)
			}
		}
		said := strings.Repeat("über \u2028 \"quoted\" \\ ", 1000)
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": said}})
		if err != nil {
			t.Fatal(err)
		}
		if got := text(res); got != said {
			t.Errorf("echo of %d octets came back as %d others", len(said), len(got))
		}
	})
}

func TestProgressReachesTheClientInOrder(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node, addr string) {
		seen := make(chan float64, 100)
		s := connect(t, n, addr, &mcp.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
				seen <- req.Params.Progress
			},
		}, nil)
		params := &mcp.CallToolParams{Name: "slow", Arguments: map[string]any{"steps": 5, "millis": 5}}
		params.SetProgressToken("token-1")
		res, err := s.CallTool(t.Context(), params)
		if err != nil || text(res) != "done" {
			t.Fatalf("slow: %v, %v", res, err)
		}
		for want := 1.0; want <= 5; want++ {
			select {
			case got := <-seen:
				if got != want {
					t.Fatalf("progress %v, want %v", got, want)
				}
			case <-time.After(patience):
				t.Fatalf("no progress %v", want)
			}
		}
	})
}

func TestCancellationStopsTheTool(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node, addr string) {
		started := make(chan struct{}, 1000)
		s := connect(t, n, addr, &mcp.ClientOptions{
			ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) {
				started <- struct{}{}
			},
		}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-started
			cancel()
		}()
		params := &mcp.CallToolParams{Name: "slow", Arguments: map[string]any{"steps": 1000, "millis": 20}}
		params.SetProgressToken(7)
		if _, err := s.CallTool(ctx, params); !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled call returned %v", err)
		}
		// The tool reports progress every 20 ms until it is stopped, a thousand times
		// at most. Silence for a hundred times that, after the session has answered
		// another call, is the end.
		if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "x"}}); err != nil {
			t.Fatal(err)
		}
		const silence = 2 * time.Second
		quiet := time.NewTimer(silence)
		for n, over := 0, false; !over; n++ {
			select {
			case <-started:
				if n > 500 {
					t.Fatal("the tool was not stopped")
				}
				quiet.Reset(silence)
			case <-quiet.C:
				over = true
			}
		}
	})
}

func TestLegacyServerAsksTheClient(t *testing.T) {
	t.Parallel()
	n := start(t, examples(t)...)
	for name, addr := range n.transports() {
		t.Run(name, func(t *testing.T) {
			s := connect(t, n, addr+"/legacy", nil, func(c *mcp.Client) {
				c.AddRoots(&mcp.Root{URI: "file:///srv/project", Name: "project"}) //nolint:staticcheck // what legacy servers ask for
			})
			res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "roots"})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := text(res), "file:///srv/project"; got != want {
				t.Errorf("roots %q, want %q", got, want)
			}
		})
	}
}

// TestServerEverything runs the reference server of the MCP project. It is an
// npm package: `make everything` installs it and sets the variable.
func TestServerEverything(t *testing.T) {
	script := os.Getenv("SWP_EVERYTHING")
	if script == "" {
		t.Skip("SWP_EVERYTHING does not name the script of @modelcontextprotocol/server-everything; make everything does")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, server{name: "everything", command: node, args: []string{script, "stdio"}})
	for name, addr := range n.transports() {
		t.Run(name, func(t *testing.T) {
			var progress []float64
			done := make(chan float64, 100)
			s := connect(t, n, addr+"/everything", &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
					done <- req.Params.Progress
				},
			}, nil)
			list, err := s.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d tools", len(list.Tools))
			res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"message": "hello"}})
			if err != nil || text(res) != "Echo: hello" {
				t.Fatalf("echo: %q, %v", text(res), err)
			}
			params := &mcp.CallToolParams{Name: "trigger-long-running-operation", Arguments: map[string]any{"duration": 2, "steps": 4}}
			params.SetProgressToken("p")
			res, err = s.CallTool(t.Context(), params)
			if err != nil {
				t.Fatal(err)
			}
			for len(progress) < 4 {
				select {
				case p := <-done:
					progress = append(progress, p)
				case <-time.After(patience):
					t.Fatalf("progress %v, want 4 steps", progress)
				}
			}
			t.Logf("%s; progress %v", text(res), progress)
			if !slices.IsSorted(progress) {
				t.Errorf("progress %v is out of order", progress)
			}
		})
	}
}

func text(res *mcp.CallToolResult) string {
	if res == nil || len(res.Content) == 0 {
		return ""
	}
	if c, ok := res.Content[0].(*mcp.TextContent); ok {
		return c.Text
	}
	return ""
}

// A desktop client starts its servers in the morning and keeps them all day.
func TestStdioOutlivesIdleTimesAndARestart(t *testing.T) {
	t.Parallel()
	const idle = 3 * time.Second
	times := 3
	if effort.Long() {
		times = 10
	}
	n := prepared(t)
	n.more = "limits: {idle: " + idle.String() + "}\nmcp:\n  servers:\n"
	for _, s := range examples(t) {
		n.more += "    " + s.name + ": {command: " + s.command + "}\n"
	}
	n.untilEnd(t)
	sessions := make(map[string]*mcp.ClientSession)
	for name, addr := range n.transports() {
		for _, server := range []string{"modern", "legacy"} {
			sessions[name+"/"+server] = connect(t, n, addr+"/"+server, nil, nil)
		}
	}
	echo := func(when string) {
		t.Helper()
		for name, s := range sessions {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": when}})
			cancel()
			if err != nil || text(res) != when {
				t.Errorf("%s, %s: %v, %v", name, when, res, err)
			}
		}
	}
	echo("at first")
	time.Sleep(time.Duration(times) * idle)
	echo("after several idle times")
	n.stop(t)
	n.launch(t)
	// A call that leaves before the end of its connection is known gets an error: the next
	// does not.
	for name, s := range sessions {
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "restarted"}})
		if err != nil {
			answeredByError(t, name, res, err)
		} else if text(res) != "restarted" {
			t.Errorf("%s, at once after a restart: %v", name, res)
		}
	}
	echo("after a restart")
}

// answeredByError wants the answer of a call to be an error that came over the pipe.
func answeredByError(t *testing.T, name string, res *mcp.CallToolResult, err error) {
	t.Helper()
	if told, ok := errors.AsType[*jsonrpc.Error](err); !ok || told.Message != "connection lost" {
		t.Errorf("%s: the call returned %v, %v, want an error of JSON-RPC that says that its connection was lost", name, res, err)
	}
}

// What is under way when swpd ends is answered with an error, over a pipe that stays; the
// next call is served by the swpd that begins anew.
func TestStdioAnswersWhatIsUnderWayWhereSwpdEnds(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*testing.T, *node){
		"by SIGTERM, twice": func(t *testing.T, n *node) { n.abort(t, syscall.SIGTERM, 143) },
		"by Ctrl-C, twice":  func(t *testing.T, n *node) { n.abort(t, os.Interrupt, 130) },
		"as in a crash":     func(t *testing.T, n *node) { n.kill(t) },
	}
	for how, end := range ends {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			n := prepared(t)
			n.more = "limits: {idle: 2s}\nmcp:\n  servers:\n"
			for _, s := range examples(t) {
				n.more += "    " + s.name + ": {command: " + s.command + "}\n"
			}
			n.untilEnd(t)
			type outcome struct {
				res *mcp.CallToolResult
				err error
			}
			sessions := make(map[string]*mcp.ClientSession)
			outcomes := make(map[string]chan outcome)
			for name, addr := range n.transports() {
				for _, server := range []string{"modern", "legacy"} {
					name, began, done := name+"/"+server, make(chan struct{}, 1000), make(chan outcome, 1)
					s := connect(t, n, addr+"/"+server, &mcp.ClientOptions{
						ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { began <- struct{}{} },
					}, nil)
					params := &mcp.CallToolParams{Name: "slow", Arguments: map[string]any{"steps": 1000, "millis": 100}}
					params.SetProgressToken(name)
					go func() {
						res, err := s.CallTool(t.Context(), params)
						done <- outcome{res, err}
					}()
					arrives(t, "progress of "+name, began)
					sessions[name], outcomes[name] = s, done
				}
			}
			end(t, n)
			n.launch(t)
			for name, done := range outcomes {
				select {
				case got := <-done:
					answeredByError(t, name, got.res, got.err)
				case <-time.After(patience):
					t.Errorf("%s: the call under way has no answer", name)
				}
			}
			for name, s := range sessions {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": name}})
				cancel()
				if err != nil || text(res) != name {
					t.Errorf("%s: the next call returned %v, %v", name, res, err)
				}
			}
		})
	}
}
