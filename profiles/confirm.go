package profiles

import (
	"context"
	"errors"

	"github.com/slimwire/swp/e1"
)

// Sync returns after the peer of a lane has processed and committed all earlier messages of
// it: the RPC swp.sync.
type Sync func(ctx context.Context, lane Lane) error

// UnconfirmedError is the error for messages that were sent to a peer that has refused none of
// them, and cannot say whether it has accepted them: it does not know swp.sync, which is a
// method of this project.
type UnconfirmedError struct {
	// Lost says that the peer has ended the connection at the question, so that it may not
	// have handled the messages before it.
	Lost bool

	// Reason is the error of the question. It is not wrapped: the question has failed, and
	// not the messages.
	Reason error
}

func (e *UnconfirmedError) Error() string {
	if e.Lost {
		return "sent, but not confirmed: the endpoint ended the connection instead of answering swp.sync, so what was sent may be lost"
	}
	return "sent, but not confirmed: the endpoint does not know swp.sync, by which it would say that it has accepted what was sent"
}

// Confirm calls sync on a lane, and returns how many of the calls that were sent on it before
// were accepted, counted from the first, up to the first refused one. The answer to a call is
// an error message, which refusal returns as an error; a call that is accepted has none.
//
// An error message arrives before the answer of sync. So where sync fails, nothing is
// confirmed, and the error is the first refusal, or without one the error of sync.
func Confirm(ctx context.Context, lane Lane, sync Sync, calls []Call, refusal func(*e1.Envelope) error) (accepted int, err error) {
	failed := sync(ctx, lane)
	polled, cancel := context.WithCancel(context.Background())
	cancel()
	for i, call := range calls {
		env, err := call.Recv(polled)
		switch {
		case errors.Is(err, context.Canceled):
			continue
		case err == nil:
			err = refusal(env)
		}
		if failed == nil {
			return i, err
		}
		if errors.As(err, new(*PeerError)) {
			return 0, err
		}
	}
	if failed != nil {
		return 0, failed
	}
	return len(calls), nil
}
