package serve

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// ToolCaller has the tools for toolcall.v1. It is called concurrently.
type ToolCaller interface {
	// Tools returns the names of the tools, in any order. Every answer advertises the first
	// 1,000 in alphabetical order, so it must not wait.
	Tools() []string

	// Tool returns the tool with a name, and whether there is one. Tools need not list it.
	Tool(name string) (Tool, bool)
}

// Tool carries out a call. An error means that the call failed; its text is logged and not
// sent, but for that of a *Stopped.
type Tool func(ctx context.Context, call *ToolCall) (ToolResult, error)

// ToolCall is a call that the tool policy allows.
type ToolCall struct {
	Name    string
	CallID  string
	Args    canonical.Value // an object
	Request *Request
}

// ToolResult is what a tool returns.
type ToolResult struct {
	Value  canonical.Value
	Failed bool // reported by the tool itself; Value has the details
}

// ToolSet is a ToolCaller of functions. It must not change while in use.
type ToolSet map[string]Tool

// Tools returns the names.
func (t ToolSet) Tools() []string { return slices.Collect(maps.Keys(t)) }

// Tool returns a function.
func (t ToolSet) Tool(name string) (Tool, bool) {
	tool, ok := t[name]
	return tool, ok
}

// Ping is the tool sys.ping: it returns the time and its arguments.
func Ping(_ context.Context, call *ToolCall) (ToolResult, error) {
	return ToolResult{Value: object(
		member("pong", canonical.Bool(true)),
		member("ts_utc", canonical.String(sdl.FormatTime(call.Request.Now))),
		member("echo", call.Args),
	)}, nil
}

var errNotNumbers = errors.New("serve: math.add: values: want an array of one number or more, with a finite sum")

// Sum is the tool math.add: it adds the numbers of args.values. The sum is
// always a float.
func Sum(_ context.Context, call *ToolCall) (ToolResult, error) {
	values := call.Args.Get("values")
	if values.Kind() != canonical.KindArray || values.Len() == 0 {
		return ToolResult{}, errNotNumbers
	}
	sum := 0.0
	for v := range values.All() {
		f, ok := v.Float64()
		if !ok {
			return ToolResult{}, errNotNumbers
		}
		sum += f
	}
	if math.IsInf(sum, 0) || math.IsNaN(sum) {
		return ToolResult{}, errNotNumbers
	}
	return ToolResult{Value: object(member("sum", canonical.Float(sum)))}, nil
}
