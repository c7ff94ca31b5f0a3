package serve

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/trust"
)

// Log lines of a toolresult.v1. They contain only what the caller may know.
const (
	logNoName   = "tool: want a name"
	logNoArgs   = "args: want an object"
	logTooLarge = "args: larger than the tool policy allows"
	logUnknown  = "tool: not registered"
	logDenied   = "denied by the tool policy"
	logNoScope  = "denied by the tool policy: scope not granted"
	logFailed   = "the tool failed"
	logSaidNo   = "the tool reports a failure"
	logDone     = "executed"
)

// toolcall answers toolcall.v1 (A2A-SDL §10.2). Failures are answered with a toolresult.v1,
// too.
func (s *Server) toolcall(ctx context.Context, r *Request) (Result, error) {
	call := &ToolCall{
		Name:    text(r.Payload.Get("tool")),
		CallID:  cmp.Or(text(r.Payload.Get("call_id")), "unknown"),
		Args:    r.Payload.Get("args"),
		Request: r,
	}
	start := s.o.Now()
	result, line := s.call(ctx, call)
	if result.Value.IsNull() && line != logDone {
		result.Value = object()
	}
	return Result{sdl.CTToolResult, object(
		member("call_id", canonical.String(call.CallID)),
		member("ok", canonical.Bool(line == logDone)),
		member("result", result.Value),
		member("logs", canonical.Strings(line)),
		member("metrics", object(
			member("latency_ms", canonical.Int(s.o.Now().Sub(start).Milliseconds())),
			member("tool", canonical.String(call.Name)),
			member("agent_id", canonical.String(cmp.Or(r.Agent(), sdl.UnknownAgent))),
		)),
	)}, nil
}

// call carries out a call, and returns its log line: logDone if it succeeded.
func (s *Server) call(ctx context.Context, c *ToolCall) (ToolResult, string) {
	if strings.TrimSpace(c.Name) == "" {
		return ToolResult{}, logNoName
	}
	if c.Args.Kind() != canonical.KindObject {
		return ToolResult{}, logNoArgs
	}
	if c.Args.JSONSize() > s.o.ToolPolicy.MaxArgs() {
		return ToolResult{}, logTooLarge
	}
	tool, ok := s.o.Tools.Tool(c.Name)
	if !ok {
		return ToolResult{}, logUnknown
	}
	if line := s.permit(c); line != "" {
		return ToolResult{}, line
	}
	result, err := tool(ctx, c)
	switch stopped := (*Stopped)(nil); {
	case errors.As(err, &stopped):
		return ToolResult{}, stopped.Why
	case err != nil:
		s.o.Failed(c.Request, err)
		return ToolResult{}, logFailed
	case result.Failed:
		return result, logSaidNo
	}
	return result, logDone
}

// Stopped is the error of a tool that was not called. The caller gets the reason, as a log
// line of the answer.
type Stopped struct{ Why string }

func (e *Stopped) Error() string { return "serve: the tool was not called: " + e.Why }

// granted returns the agent whose grants count for a request: a grant belongs to an
// authenticated agent, not to another sender that uses its name.
func (s *Server) granted(r *Request) string {
	if r.authentic() || s.o.Compat.AssertedScopes {
		return r.Agent()
	}
	return ""
}

// permit returns the log line of a denied call, or "".
func (s *Server) permit(c *ToolCall) string {
	if s.o.ToolPolicy == nil && s.o.Compat.NoToolPolicyAllows {
		return ""
	}
	err := s.o.ToolPolicy.Allow(s.granted(c.Request), c.Name, c.Request.Payload.Get("authz"))
	switch {
	case err == nil:
		return ""
	case errors.Is(err, trust.ErrScope):
		return logNoScope
	}
	return logDenied
}
