package sdlagent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/slimwire/swp/profiles"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/serve"
)

// tools calls functions of this process and, for names with a slash, tools of MCP servers.
// It implements serve.ToolCaller.
type tools struct {
	*Agent
	own serve.ToolCaller
}

// Tools returns the names of functions. Answers also list the tools of servers that the tool
// policy names; profile 11 lists all.
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
		tool, ok := t.own.Tool(name)
		if !ok {
			return nil, false
		}
		return func(ctx context.Context, call *serve.ToolCall) (serve.ToolResult, error) {
			if v := stopped(ctx, &profiles.Act{Profile: "sdl", Operation: "send", Name: name}); v != nil {
				return serve.ToolResult{}, &serve.Stopped{Why: v.Text()}
			}
			return tool(ctx, call)
		}, true
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

// offers reports whether the access rules let the sender of a request use a content type, or a
// tool.
func (a *Agent) offers(r *serve.Request, ct, tool string) bool {
	switch {
	case ct == sdl.CTTask:
		act := a.links.Task(TaskKind)
		return a.opts.Allowed(r.Caller.Identity, act.Profile, act.Operation, act.Name)
	case strings.Contains(tool, "/"):
		return a.opts.Allowed(r.Caller.Identity, "mcp", "tools/call", tool)
	}
	return true
}

var errNoObject = errors.New("the result is no object")

// call calls a tool of an MCP server. The result is the CallToolResult.
func (a *Agent) call(ctx context.Context, server, tool string, call *serve.ToolCall) (serve.ToolResult, error) {
	carriage.Rest(ctx)
	if v := stopped(ctx, &profiles.Act{Profile: "mcp", Operation: "tools/call", Name: server}); v != nil {
		return serve.ToolResult{}, &serve.Stopped{Why: v.Text()}
	}
	link, release, err := a.links.use(call.Request.Caller.Identity)
	if err != nil {
		return serve.ToolResult{}, err
	}
	defer release()
	octets, err := a.links.caller(link, server).Call(a.links.within(ctx, server), tool, call.Args.AppendJSON(nil))
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

// stopped returns the hint of the sender that forbids what an envelope asks for, after
// telling the sender; nil if there is none.
func stopped(ctx context.Context, act *profiles.Act) *profiles.Violation {
	policy := profiles.PolicyOf(ctx)
	if policy == nil {
		return nil
	}
	v := policy.Violated(ctx, act)
	if v == nil {
		return nil
	}
	if s := messageOf(ctx).session; s != nil {
		_ = s.Send(ctx, v.Notice) // an error means that the sender is gone
	}
	return v
}

// within returns ctx for a request over a link for a server: it carries the trace context,
// the hints and the chain of the envelope. The identity is the same, so that its chain is
// known.
func (l *links) within(ctx context.Context, server string) context.Context {
	if d := profiles.DelegationOf(ctx); d != nil {
		ctx = profiles.WithChain(ctx, []byte(d.ChainID))
	}
	if l.Carrier == nil {
		return ctx
	}
	return profiles.WithForward(ctx, l.Carrier, profiles.Onward{Name: server}, nil)
}
