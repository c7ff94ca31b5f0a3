package mcphttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/slimwire/swp/internal/bridge/upstream"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

var (
	// errCredentials: BackendOptions.Headers gave none that are of use. Nothing was
	// sent.
	errCredentials = errors.New("mcphttp: no headers for the server")

	// errShape: what should be the response to a request is none.
	errShape = errors.New("mcphttp: no JSON-RPC response to the request")

	// errQuiet: no message of a call within BackendOptions.Timeout.
	errQuiet = errors.New("mcphttp: no message in time")

	// errSessionOver: the conversation that the call belongs to has ended.
	errSessionOver = errors.New("mcphttp: the session has ended")
)

// explain converts an error for the peer. It contains no information about the server, such
// as its address. A request that may have been executed is not marked as retryable.
func (b *Backend) explain(err error) *profiles.Error {
	var e *profiles.Error
	if errors.As(err, &e) {
		return e
	}
	e = &profiles.Error{Code: profiles.Internal, Detail: "mcp_upstream", Cause: err}
	what := "gave no proper answer"
	switch {
	case errors.Is(err, upstream.ErrBusy):
		return profiles.Busy("mcp_calls", "too many calls to this server")
	case errors.Is(err, upstream.ErrUnreached), errors.Is(err, errCredentials):
		what, e.Retryable = "is not reached", true
	case errors.Is(err, upstream.ErrSilent), errors.Is(err, upstream.ErrTotal), errors.Is(err, errQuiet):
		what = "took too long"
	case errors.Is(err, upstream.ErrTooLarge):
		e.Code, e.Detail = profiles.InvalidMCPPayload, "mcp_size"
		what = fmt.Sprintf("sent a message of more than %d octets", b.opts.MaxMessage)
	case errors.Is(err, errShape):
		e.Code, e.Detail = profiles.InvalidMCPPayload, "mcp_shape"
		what = "gave an answer that is no JSON-RPC response"
	case errors.Is(err, errSessionOver):
		e.Code, e.Detail, what = profiles.NotFound, "mcp_session", "ended the session"
	case errors.Is(err, upstream.ErrLost), errors.Is(err, io.EOF):
		what = "broke off in the middle of the call"
	}
	e.Text = fmt.Sprintf("server %q %s", b.opts.Name, what)
	return e
}

// statusFault is the error for a response that is neither a message nor a success.
type statusFault int

func (s statusFault) Error() string { return fmt.Sprintf("mcphttp: HTTP status %d", int(s)) }

// explainStatus says such a status in words for the peer, and which status it is
// told, if any.
func (b *Backend) explainStatus(status int) (fault *profiles.Error, told int) {
	fault = &profiles.Error{
		Code: profiles.Internal, Detail: "mcp_status", Cause: statusFault(status),
		Text: fmt.Sprintf("server %q answered with HTTP status %d", b.opts.Name, status),
	}
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		fault.Retryable = true
	}
	if !mcpmap.IsAnswerStatus(status) {
		return fault, 0
	}
	return fault, status
}
