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
	if peer, is := errors.AsType[*profiles.PeerError](err); is {
		by := Author{Endpoint: peer.Endpoint}
		if explained, is := errors.AsType[*Explained](err); is && explained.By.Endpoint != "" {
			by = explained.By
		}
		return peer.Code, by, true
	}
	explained, is := errors.AsType[*Explained](err) // other errors may come from this side
	if !is {
		return "", Author{}, false
	}
	if failed, is := errors.AsType[*rpc.Error](explained.Err); is {
		return failed.Code, Author{Endpoint: failed.Endpoint}, true
	}
	if fault, is := errors.AsType[*profiles.Error](explained.Err); is {
		return fault.Code.String(), Author{}, true
	}
	return "", Author{}, false
}
