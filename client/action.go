package client

import (
	"context"
	"errors"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// Action is a request in the words of the access rules of the peer.
type Action struct{ Profile, Operation, Name string }

// actionError is the failure of an action that is one step of a larger one.
type actionError struct {
	Action
	error
}

func (e *actionError) Unwrap() error { return e.error }

// ActionOf returns the action whose failure is the cause of err, such as a call of
// acme/swp.artifacts.list for a download from partner acme, or server/discover for the call
// of a tool. The name is empty for the default MCP server. ok is false if the failed
// action is the one that the caller has named.
func ActionOf(err error) (a Action, ok bool) {
	if failed, ok := errors.AsType[*MCPError](err); ok {
		return failed.action, failed.action != (Action{})
	}
	failed, ok := errors.AsType[*actionError](err)
	if !ok {
		return Action{}, false
	}
	return failed.Action, true
}

// route is where calls go: the peer, or an endpoint behind it.
type route struct {
	profiles.Session
	partners string // names on the way from the peer, joined by slashes; empty: the peer
}

// there is where the address of this client leads.
func (c *Client) there() route {
	if c.opts.Partner {
		return route{c.Session, c.Target}
	}
	return route{c.Session, ""}
}

// call calls a built-in method for a command that does not name it. The error has its
// Action.
func (r route) call(ctx context.Context, method string, params []byte) ([]byte, error) {
	result, err := rpc.Call(ctx, r, method, params)
	return result, r.failed(method, err)
}

// callJSON is call for a method whose params and result are JSON.
func (r route) callJSON(ctx context.Context, method string, params, result any) error {
	return r.failed(method, rpc.CallJSON(ctx, r, method, params, result))
}

func (r route) failed(method string, err error) error {
	if err == nil {
		return nil
	}
	if r.partners != "" {
		method = r.partners + "/" + method
	}
	return &actionError{Action{"rpc", "call", method}, err}
}
