package mcpfront_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/slimwire/swp/internal/bridge/mcpfront"
	"github.com/slimwire/swp/sdk/mcptransport"
)

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

type text struct {
	Text string `json:"text"`
}

// official is a server written with the official SDK.
func official() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "steps"}, func(ctx context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
		for step := range 3 {
			p := &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(step + 1)}
			if err := req.Session.NotifyProgress(ctx, p); err != nil {
				return nil, nil, err
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "ask"}, func(ctx context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
		answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "well?", RequestedSchema: map[string]any{"type": "object"}})
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: answer.Action}}}, nil, nil
	})
	return s
}

func TestClientsOfTheOfficialSDK(t *testing.T) {
	for _, era := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(era, func(t *testing.T) {
			behind := mcptransport.NewServer(official(), mcptransport.ServerOptions{})
			t.Cleanup(behind.Close)
			s := openWith(t, mcpfront.Options{}, behind)
			var mu sync.Mutex
			var steps []float64
			client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
					mu.Lock()
					defer mu.Unlock()
					steps = append(steps, req.Params.Progress)
				},
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: "accept"}, nil
				},
			})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: s.url + "/one"}, &mcp.ClientSessionOptions{ProtocolVersion: era})
			if err != nil {
				t.Fatal(err)
			}
			call := func(tool string, arguments any) string {
				t.Helper()
				params := &mcp.CallToolParams{Name: tool, Arguments: arguments}
				params.SetProgressToken("p")
				result, err := session.CallTool(ctx, params)
				if err != nil {
					t.Fatalf("%s: %v", tool, err)
				}
				return result.Content[0].(*mcp.TextContent).Text
			}
			want(t, "version", session.InitializeResult().ProtocolVersion, era)
			want(t, "echo", call("echo", text{"ä 😀"}), "ä 😀")
			want(t, "steps", call("steps", nil), "done")
			if era < "2026" {
				want(t, "ask", call("ask", nil), "accept")
			}
			if err := session.Close(); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(steps, []float64{1, 2, 3}) {
				t.Errorf("progress %v", steps)
			}
			want(t, "sessions", s.front.Stats().Sessions, 0)
		})
	}
}
