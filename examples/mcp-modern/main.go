// Mcp-modern is an MCP server for the demonstration, written with the official
// Go SDK. It speaks what the SDK speaks: the stateless protocol of 2026-07-28
// and, to clients that start a session, the older versions.
package main

import (
	"context"
	"log"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/slimwire/swp/examples/internal/tools"
)

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "mcp-modern", Version: "1"}, nil)
	tools.Add(server)
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}
