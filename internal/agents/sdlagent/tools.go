package sdlagent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/slimwire/swp/profiles"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/serve"
)

// tools calls functions of this process and, for names with a slash, tools of MCP servers.
// It implements serve.ToolCaller.
type tools struct {
	*Agent
	own serve.ToolCaller
}

// Tools returns the names of functions. Tools of servers are listed by profile 11, with
// access rules.
func (t *tools) Tools() []string {
	if t.own == nil {
		return nil
	}
	return t.own.Tools()
}

// Tool implements serve.ToolCaller.
func (t *tools) Tool(name string) (serve.Tool, bool) {
	if !strings.Contains(name, "/") {
		if t.own == nil {
			return nil, false
		}
		return t.own.Tool(name)
	}
	if t.opts.Target == nil || t.opts.Inside.Connect == nil {
		return nil, false
	}
	server, tool, ok := t.opts.Target(name)
	if !ok {
		return nil, false
	}
	return func(ctx context.Context, call *serve.ToolCall) (serve.ToolResult, error) {
		return t.call(ctx, server, tool, call)
	}, true
}

var errNoObject = errors.New("the result is no object")

// call calls a tool of an MCP server. The result is the CallToolResult.
func (a *Agent) call(ctx context.Context, server, tool string, call *serve.ToolCall) (serve.ToolResult, error) {
	carriage.Rest(ctx)
	if a.opts.Policy != nil {
		if v := a.opts.Policy.Violated(ctx, "mcp", server); v != nil {
			if s, ok := ctx.Value(sessionKey{}).(profiles.Session); ok {
				_ = s.Send(ctx, v.Notice) // an error means that the client is gone
			}
			return serve.ToolResult{}, v.Refusal()
		}
	}
	link, release, err := a.links.use(call.Request.Caller.Identity)
	if err != nil {
		return serve.ToolResult{}, err
	}
	defer release()
	if ctx, err = a.links.present(ctx, link); err != nil {
		return serve.ToolResult{}, err
	}
	octets, err := a.links.caller(link, server).Call(ctx, tool, call.Args.AppendJSON(nil))
	if err != nil {
		return serve.ToolResult{}, err
	}
	v, err := canonical.ParseJSON(octets)
	switch {
	case err != nil:
		return serve.ToolResult{}, fmt.Errorf("sdlagent: result of %s/%s: %w", server, tool, err)
	case v.Kind() != canonical.KindObject:
		return serve.ToolResult{}, fmt.Errorf("sdlagent: result of %s/%s: %w", server, tool, errNoObject)
	}
	failed, _ := v.Get("isError").Bool()
	return serve.ToolResult{Value: v, Failed: failed}, nil
}

// present sends the credentials of ctx over a link, if there are any.
func (l *links) present(ctx context.Context, k *link) (context.Context, error) {
	if l.Carrier == nil || profiles.DelegationOf(ctx) == nil {
		return ctx, nil
	}
	lane, err := k.session.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = lane.Close() }()
	return l.Carrier.Forward(ctx, lane, new(profiles.Onward))
}
