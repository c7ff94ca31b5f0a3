package mcphttp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/slimwire/swp/internal/bridge/mcphttp"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// sdkServer is a server of the SDK: it greets, tells of its progress, and asks its
// client.
func sdkServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	type in struct {
		Name string `json:"name"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, func(ctx context.Context, req *mcp.CallToolRequest, in in) (*mcp.CallToolResult, any, error) {
		if token := req.Params.GetProgressToken(); token != nil {
			if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1}); err != nil {
				return nil, nil, err
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello " + in.Name}}}, nil, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "ask"}, func(ctx context.Context, req *mcp.CallToolRequest, _ in) (*mcp.CallToolResult, any, error) {
		//nolint:staticcheck // deprecated for the era without sessions, which asks otherwise
		r, err := req.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1, Messages: []*mcp.SamplingMessage{
			{Role: "user", Content: &mcp.TextContent{Text: "who?"}},
		}})
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{r.Content}}, nil, nil
	})
	return server
}

func overSDK(t *testing.T, opts *mcp.StreamableHTTPOptions) *backSite {
	server := sdkServer()
	return behind(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, opts), mcphttp.BackendOptions{})
}

func TestSDKServerInTheStatelessEra(t *testing.T) {
	for name, json := range map[string]bool{"events": false, "JSON": true} {
		t.Run(name, func(t *testing.T) {
			c := overSDK(t, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: json}).dial("alice")
			r := c.in("", stateless(`1`, "server/discover", ""))
			if !strings.Contains(string(r.Octets), `"2026-07-28"`) {
				t.Errorf("server/discover: %s", r.Octets)
			}
			for _, name := range []string{`"bob"`, `"Zo\u00eb"`} {
				r = c.in("", stateless(`"x"`, "tools/call", `"name":"greet","arguments":{"name":`+name+`}`))
				if !strings.Contains(string(r.Octets), "hello ") || r.Status != 0 {
					t.Errorf("tools/call: status %d, %s", r.Status, r.Octets)
				}
			}
			r = c.in("", stateless(`2`, "no/such", ""))
			same(t, "code", problemOf(t, r.Octets).Code, -32601)
			same(t, "status", r.Status, http.StatusNotFound)
		})
	}
}

func TestSDKServerInTheEraWithSessions(t *testing.T) {
	server := sdkServer()
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	s := behind(t, h, mcphttp.BackendOptions{})
	c := s.dial("alice")
	notes := make(chan string, 16)
	session := c.open(mcpmap.Events{
		Notification: func(octets []byte) { notes <- string(octets) },
		Request: func(a *mcpmap.Asked) {
			id := string(a.Message.ID())
			if err := a.Answer([]byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{"role":"assistant","model":"m","content":{"type":"text","text":"me"}}}`)); err != nil {
				t.Error(err)
			}
		},
	})
	if session == "" || len(session) < 26 {
		t.Errorf("session %q", session)
	}
	r := c.in(session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"x"},"_meta":{"progressToken":"p"}}}`)
	if !strings.Contains(string(r.Octets), "hello x") {
		t.Errorf("greet: %s", r.Octets)
	}
	if note := await(t, "progress", notes); !strings.Contains(note, `"p"`) {
		t.Errorf("notification %s", note)
	}
	r = c.in(session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{"name":""}}}`)
	var result struct {
		Result struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal(r.Octets, &result); err != nil || len(result.Result.Content) != 1 || result.Result.Content[0].Text != "me" {
		t.Errorf("ask: %s", r.Octets)
	}
	// What belongs to no request comes by the GET stream.
	mcp.AddTool(server, &mcp.Tool{Name: "new"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return nil, nil, nil
	})
	if note := await(t, "change", notes); !strings.Contains(note, "notifications/tools/list_changed") {
		t.Errorf("notification %s", note)
	}
	// A stateless request for this server is told which versions there are.
	p := problemOf(t, c.in("", stateless(`9`, "tools/list", "")).Octets)
	same(t, "code", p.Code, -32022)
}
