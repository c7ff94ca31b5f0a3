package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// atURL serves an MCP server by Streamable HTTP. Its tools: echo, wait (until it is
// cancelled, which it tells) and ask (what the user wants).
func atURL(t *testing.T, opts *mcp.StreamableHTTPOptions) (url string, server *mcp.Server, cancelled <-chan struct{}) {
	t.Helper()
	server = mcp.NewServer(&mcp.Implementation{Name: "url", Version: "1"}, nil)
	ended := make(chan struct{}, 1)
	type in struct {
		Text string `json:"text"`
	}
	say := func(text string) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	}
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in in) (*mcp.CallToolResult, any, error) {
		return say(in.Text)
	})
	mcp.AddTool(server, &mcp.Tool{Name: "wait"}, func(ctx context.Context, req *mcp.CallToolRequest, _ in) (*mcp.CallToolResult, any, error) {
		if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: 1}); err != nil {
			return nil, nil, err
		}
		<-ctx.Done()
		ended <- struct{}{}
		return nil, nil, ctx.Err()
	})
	mcp.AddTool(server, &mcp.Tool{Name: "ask"}, func(ctx context.Context, req *mcp.CallToolRequest, _ in) (*mcp.CallToolResult, any, error) {
		r, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "who?"})
		if err != nil {
			return nil, nil, err
		}
		return say(r.Action)
	})
	h := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, opts))
	t.Cleanup(h.Close)
	return h.URL, server, ended
}

func TestUnmodifiedClientUsesServersAtURLs(t *testing.T) {
	t.Parallel()
	for era, opts := range map[string]*mcp.StreamableHTTPOptions{"modern": {Stateless: true, PropagateRequestCancellation: true}, "legacy": nil} {
		url, server, cancelled := atURL(t, opts)
		n := configured(t, fmt.Sprintf("mcp: {servers: {far: {url: '%s'}}}\n", url))
		for name, addr := range n.transports() {
			t.Run(era+"/"+name, func(t *testing.T) {
				changed, progress := make(chan struct{}, 8), make(chan struct{}, 8)
				s := connect(t, n, addr+"/far", &mcp.ClientOptions{
					ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
					ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { progress <- struct{}{} },
					ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
						return &mcp.ElicitResult{Action: "decline"}, nil
					},
				}, nil)
				const said = "über \u2028 \"quoted\" \\ "
				res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": said}})
				if err != nil || text(res) != said {
					t.Fatalf("echo: %v, %v", res, err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					arrives(t, "progress", progress)
					cancel()
				}()
				params := &mcp.CallToolParams{Name: "wait", Arguments: map[string]any{"text": ""}}
				params.SetProgressToken("p")
				if _, err := s.CallTool(ctx, params); !errors.Is(err, context.Canceled) {
					t.Errorf("cancelled call returned %v", err)
				}
				arrives(t, "cancellation", cancelled)
				if era == "modern" {
					return
				}
				res, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask", Arguments: map[string]any{"text": ""}})
				if err != nil || text(res) != "decline" {
					t.Errorf("ask: %v, %v", res, err)
				}
				mcp.AddTool(server, &mcp.Tool{Name: "new-" + name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
					return nil, nil, nil
				})
				arrives(t, "change", changed)
			})
		}
	}
}

func arrives(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Errorf("no %s", what)
	}
}
