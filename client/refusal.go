package client

import (
	"errors"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/slip"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// AnswerError is an error that says that the other end has said no. Its text is Text.
type AnswerError struct {
	Text string
	Code string // what it has answered, such as ERR_SECURITY_POLICY or unauthorized
	By   Author // who it was, if that is known
}

func (e *AnswerError) Error() string { return e.Text }

// Refusal returns the code by which the other end has said no, in the words of the
// profile, and who it was, if that is known. ok is false for any other error, that of an
// MCP server among them.
func Refusal(err error) (code string, by Author, ok bool) {
	if refused, is := errors.AsType[*AnswerError](err); is {
		return refused.Code, refused.By, true
	}
	if mcp, is := errors.AsType[*MCPError](err); is {
		code, _ = mcp.endpoint()
		return code, mcp.Author, code != ""
	}
	if code, ok = peerCode(err); ok {
		return code, Author{}, true
	}
	explained, is := errors.AsType[*Explained](err) // others may be of this side
	if !is {
		return "", Author{}, false
	}
	if fault, is := errors.AsType[*profiles.Error](explained.Err); is {
		return fault.Code.String(), Author{}, true
	}
	return "", Author{}, false
}

// peerCode returns the code of an error message of a profile, if that is what it is.
func peerCode(err error) (code string, ok bool) {
	for _, codeOf := range peerErrors {
		if code, ok = codeOf(err); ok {
			return code, true
		}
	}
	return "", false
}

// peerErrors return the code of an error message of a profile, if it is one.
var peerErrors = []func(error) (string, bool){
	peerError(func(e *agdisc.PeerError) string { return e.Code }),
	peerError(func(e *artifact.PeerError) string { return e.Code }),
	peerError(func(e *cred.PeerError) string { return e.Code }),
	peerError(func(e *events.PeerError) string { return e.Code }),
	peerError(func(e *policyhint.PeerError) string { return e.Code }),
	peerError(func(e *relay.PeerError) string { return e.Code }),
	peerError(func(e *slip.PeerError) string { return e.Code }),
	peerError(func(e *state.PeerError) string { return e.Code }),
	peerError(func(e *tooldisc.PeerError) string { return e.Code }),
}

func peerError[E error](code func(E) string) func(error) (string, bool) {
	return func(err error) (string, bool) {
		if e, ok := errors.AsType[E](err); ok {
			return code(e), true
		}
		return "", false
	}
}
