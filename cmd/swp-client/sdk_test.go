package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/slimwire/swp/daemon/devpki"
)

// patience bounds every wait in these tests.
const patience = 5 * time.Minute

// program returns a command that runs this test binary as one of its programs.
func program(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), programEnv+"="+name)
	cmd.Stderr = t.Output()
	return cmd
}

// startSWPD runs swpd in a process of its own and returns its addresses over TLS
// and QUIC.
func startSWPD(t *testing.T) (dir string, addresses []string) {
	t.Helper()
	dir = t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "swpd.yaml"), []byte(serverYAML(self)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := program(t, dir, "swpd", "swpd.yaml", "addresses")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("swpd: %v", err)
		}
	})
	addresses = awaitLines(filepath.Join(dir, "addresses"), 3)
	if len(addresses) < 2 {
		t.Fatal("swpd does not listen")
	}
	return dir, addresses[:2]
}

// TestUnmodifiedClientUsesARemoteServer has a client of the official SDK start
// swp-client mcp stdio as it would start any local server.
func TestUnmodifiedClientUsesARemoteServer(t *testing.T) {
	dir, addresses := startSWPD(t)
	for _, address := range addresses {
		for _, server := range []string{"modern", "legacy"} {
			t.Run(address[:len("swp+tls")]+" "+server, func(t *testing.T) {
				useServer(t, dir, address+"/"+server, server == "legacy")
			})
		}
	}
}

func useServer(t *testing.T, dir, address string, legacy bool) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	progress := make(chan float64, 16)
	client := mcp.NewClient(&mcp.Implementation{Name: "unmodified", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			progress <- req.Params.Progress
		},
	})
	client.AddRoots(&mcp.Root{URI: "file:///of/the/client"}) //nolint:staticcheck // deprecated by 2026-07-28; legacy servers ask
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: program(t, dir, "swp-client", "mcp", "stdio", address)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := session.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}()
	tools, err := session.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	for _, want := range []string{"echo", "steps"} {
		if !slices.Contains(names, want) {
			t.Fatalf("tools %q, want %q among them", names, want)
		}
	}
	call(ctx, t, session, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}}, "hello")

	params := &mcp.CallToolParams{Name: "steps", Arguments: map[string]any{"count": 3}}
	params.SetProgressToken("token")
	call(ctx, t, session, params, "all done")
	for want := range 3 {
		select {
		case got := <-progress:
			if got != float64(want+1) {
				t.Errorf("progress %v, want %d", got, want+1)
			}
		case <-ctx.Done():
			t.Fatal("no progress")
		}
	}
	if legacy {
		call(ctx, t, session, &mcp.CallToolParams{Name: "roots"}, "file:///of/the/client")
	}
	cancelCall(ctx, t, session)
}

func call(ctx context.Context, t *testing.T, session *mcp.ClientSession, params *mcp.CallToolParams, want string) {
	t.Helper()
	result, err := session.CallTool(ctx, params)
	if err != nil {
		t.Fatalf("%s: %v", params.Name, err)
	}
	if got := fmt.Sprint(result.Content[0].(*mcp.TextContent).Text); got != want || result.IsError {
		t.Errorf("%s: %q, want %q", params.Name, got, want)
	}
}

// cancelCall cancels a call that is under way and waits until the server has
// noticed.
func cancelCall(ctx context.Context, t *testing.T, session *mcp.ClientSession) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "state")
	state := func(want string) {
		t.Helper()
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if b, _ := os.ReadFile(file); string(b) == want {
				return
			}
		}
		t.Fatalf("the call is not %s", want)
	}
	calling, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		_, err := session.CallTool(calling, &mcp.CallToolParams{Name: "wait", Arguments: map[string]any{"text": file}})
		done <- err
	}()
	state("waiting")
	cancel()
	if err := <-done; err == nil {
		t.Error("a cancelled call returned no error")
	}
	state("cancelled")
}
