package mcptransport_test

import (
	"context"
	"fmt"
	"log"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/sdk/mcptransport"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// A server and a client of the SDK, with SlimWire between them. Here both ends are in
// one program and a pipe is the connection; elsewhere Dial is client.To an address.
func Example() {
	// The server's end.
	server := mcp.NewServer(&mcp.Implementation{Name: "greeter", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil, nil
	})
	greeter := mcptransport.NewServer(server, mcptransport.ServerOptions{})
	defer greeter.Close()
	servers, err := mcpmap.NewTable(map[string]mcpmap.Server{"greeter": greeter}, "greeter")
	if err != nil {
		log.Fatal(err)
	}
	profiles, err := all.New(all.Options{MCP: mcpmap.Options{Backend: servers}})
	if err != nil {
		log.Fatal(err)
	}
	defer profiles.Close()
	serving, err := endpoint.New(endpoint.Options{Registry: profiles.Registry})
	if err != nil {
		log.Fatal(err)
	}
	defer serving.Close()

	// The client's end. The connection is kept: it is made anew whenever it has ended.
	peer := client.Keep(client.KeepOptions{Dial: func(context.Context) (*client.Client, error) {
		accepted, dialled := transport.Pipe()
		serving.Attach(accepted)
		return client.Attach(dialled, client.Options{})
	}})
	defer peer.Close()

	program := mcp.NewClient(&mcp.Implementation{Name: "someone", Version: "1"}, nil)
	ctx := context.Background()
	conversation, err := program.Connect(ctx, &mcptransport.Client{Peer: peer}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer conversation.Close()
	result, err := conversation.CallTool(ctx, &mcp.CallToolParams{Name: "greet"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output: hello
}
