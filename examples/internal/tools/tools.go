// Package tools has the tools that the example servers share, written with the
// official Go SDK as any server would be.
package tools

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Add adds echo, add and slow to a server.
func Add(s *mcp.Server) {
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "returns the text it is given"}, echo)
	mcp.AddTool(s, &mcp.Tool{Name: "add", Description: "adds two numbers"}, add)
	mcp.AddTool(s, &mcp.Tool{Name: "slow", Description: "takes its time, reports progress, stops when cancelled"}, slow)
}

type text struct {
	Text string `json:"text" jsonschema:"what to say"`
}

func echo(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
	return say(in.Text), nil, nil
}

type pair struct {
	A float64 `json:"a" jsonschema:"one number"`
	B float64 `json:"b" jsonschema:"the other"`
}

type sum struct {
	Sum float64 `json:"sum"`
}

func add(_ context.Context, _ *mcp.CallToolRequest, in pair) (*mcp.CallToolResult, sum, error) {
	return nil, sum{in.A + in.B}, nil
}

type steps struct {
	Steps  int `json:"steps,omitempty" jsonschema:"how many, 1 to 1000, default 5"`
	Millis int `json:"millis,omitempty" jsonschema:"how long each takes, at most 60000, default 200"`
}

func slow(ctx context.Context, req *mcp.CallToolRequest, in steps) (*mcp.CallToolResult, any, error) {
	if in.Steps < 1 || in.Steps > 1000 {
		in.Steps = 5
	}
	if in.Millis < 1 || in.Millis > 60_000 {
		in.Millis = 200
	}
	tick := time.NewTicker(time.Duration(in.Millis) * time.Millisecond)
	defer tick.Stop()
	for step := range in.Steps {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		token := req.Params.GetProgressToken()
		if token == nil {
			continue
		}
		err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token, Progress: float64(step + 1), Total: float64(in.Steps),
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return say("done"), nil, nil
}

func say(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}
