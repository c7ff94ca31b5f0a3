package mcptransport_test

import (
	"context"
	"fmt"
	"log"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/sdk/mcptransport"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// A server and a client of the SDK, with SlimWire between them. Here both ends are in
// one program and a pipe is the connection; elsewhere it is what tlsconn or quicconn
// accepted and dialled.
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
	serving, endServing := serve(all.Options{MCP: mcpmap.Options{Backend: servers}})
	defer endServing()

	// The client's end.
	calling, endCalling := serve(all.Options{})
	defer endCalling()

	accepted, dialled := transport.Pipe()
	serving(accepted)
	session, mapping := calling(dialled)

	client := mcp.NewClient(&mcp.Implementation{Name: "someone", Version: "1"}, nil)
	ctx := context.Background()
	conversation, err := client.Connect(ctx, &mcptransport.Client{Session: session, MCP: mapping.Client(session)}, nil)
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

// serve makes an endpoint. attach has it speak on a connection, which is over with end.
func serve(opts all.Options) (attach func(transport.Conn) (*endpoint.Session, *mcpmap.Mapping), end func()) {
	profiles, err := all.New(opts)
	if err != nil {
		log.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: profiles.Registry})
	if err != nil {
		log.Fatal(err)
	}
	attach = func(conn transport.Conn) (*endpoint.Session, *mcpmap.Mapping) { return ep.Attach(conn), profiles.MCP }
	return attach, func() {
		_ = ep.Close()
		profiles.Close()
	}
}
