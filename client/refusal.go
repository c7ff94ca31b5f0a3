package client

import (
	"errors"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// AnswerError is an error for a refusal by the peer. Its text is Text.
type AnswerError struct {
	Text string
	Code string // of the refusal, such as ERR_SECURITY_POLICY or unauthorized
	By   Author // the endpoint that refused, if known
}

func (e *AnswerError) Error() string { return e.Text }

// Verbatim returns Text.
func (e *AnswerError) Verbatim() string { return e.Text }

// Refusal returns the code with which an endpoint has refused, and that endpoint if known.
// ok is false for any other error, such as an error of an MCP server.
func Refusal(err error) (code string, by Author, ok bool) {
	if refused, is := errors.AsType[*AnswerError](err); is {
		return refused.Code, refused.By, true
	}
	if mcp, is := errors.AsType[*MCPError](err); is {
		code, _ = mcp.endpoint()
		return code, mcp.Author, code != ""
	}
	explained, is := errors.AsType[*Explained](err)
	by = Author{Endpoint: writer(err)}
	if is && explained.By.Endpoint != "" {
		by = explained.By
	}
	if peer, said := errors.AsType[*profiles.PeerError](err); said {
		return peer.Code, by, true
	}
	if !is { // other errors may come from this side
		return "", Author{}, false
	}
	if failed, said := errors.AsType[*rpc.Error](explained.Err); said {
		return failed.Code, by, true
	}
	if fault, is := errors.AsType[*profiles.Error](explained.Err); is {
		return fault.Code.String(), Author{}, true
	}
	return "", Author{}, false
}
