// Mcp-legacy is an MCP server for the demonstration, written with the official
// Go SDK and restricted to the protocol with sessions. Beside the shared tools
// it has one that asks the client something in the middle of a call.
package main

import (
	"context"
	"log"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/slimwire/swp/examples/internal/tools"
)

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "mcp-legacy", Version: "1"}, &mcp.ServerOptions{
		SupportedProtocolVersions: []string{"2025-11-25", "2025-06-18"},
	})
	tools.Add(server)
	mcp.AddTool(server, &mcp.Tool{Name: "roots", Description: "asks the client for its roots and lists them"}, roots)
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}

func roots(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
	list, err := req.Session.ListRoots(ctx, nil) //nolint:staticcheck // deprecated by 2026-07-28, whose place this server does not take
	if err != nil {
		return nil, nil, err
	}
	uris := make([]string, len(list.Roots))
	for i, root := range list.Roots {
		uris[i] = root.URI
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Join(uris, "\n")}}}, nil, nil
}
