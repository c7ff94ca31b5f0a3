package upstream

import "errors"

// Why a call fails. Errors wrap one of these, or the cause of the context.
var (
	// ErrBusy: Options.Calls are under way. Nothing was sent.
	ErrBusy = errors.New("upstream: too many calls at once")

	// ErrUnreached: no connection, or an unusable request. Nothing was sent.
	ErrUnreached = errors.New("upstream: not reached")

	// ErrLost: the connection broke after the request, or part of it, was sent.
	// The server may or may not have acted on it.
	ErrLost = errors.New("upstream: connection lost")

	// ErrSilent: a message of the call was not complete within Options.Silence.
	ErrSilent = errors.New("upstream: no message in time")

	// ErrTotal: the call was not over within Options.Total.
	ErrTotal = errors.New("upstream: the call takes too long")

	// ErrTooLarge: a body, a line or all lines are above their limit.
	ErrTooLarge = errors.New("upstream: response too large")

	// ErrBroken: the answer is not a response to the request.
	ErrBroken = errors.New("upstream: broken response")
)
