package trust

import (
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// Nonces remembers the nonces that agents used.
type Nonces interface {
	// Remember records that an agent used a nonce, until exp at least. It is one
	// step: of any number of calls for the same agent and nonce exactly one returns
	// fresh. An error means that the answer is unknown, and the nonce may not be
	// recorded; it is ErrFull if there is no room.
	Remember(ctx context.Context, agent, nonce string, exp time.Time) (fresh bool, err error)
}

// ErrFull is the error of Nonces that are full of nonces which must not be forgotten.
var ErrFull = errors.New("trust: no room for another nonce")

// ReplayFull is details.reason where there is no room for a nonce. It is as an
// admission refused (§9): the same message may pass later.
const ReplayFull = "replay_full"

// Replay refuses messages that were seen before (§6.6). Its fields must not change
// while it is used.
type Replay struct {
	Nonces Nonces

	// Window is how far ahead sec.replay.exp may be, default 10 minutes. It bounds
	// how long a nonce is remembered.
	Window time.Duration

	// Skew is how long after sec.replay.exp a message still passes, for clocks that
	// differ; default 0. The end of the window is later by as much.
	Skew time.Duration
}

// Check takes down the nonce of an envelope, which has sec.replay and whose signature
// was verified where there is one. It may wait for the Nonces.
func (r *Replay) Check(ctx context.Context, e *sdl.Envelope, now time.Time) *sdl.Error {
	if e.Sec.Replay == nil {
		return sdl.Refuse(sdl.BadRequest, "no sec.replay")
	}
	window := r.Window
	if window == 0 {
		window = 10 * time.Minute
	}
	exp := e.Sec.Replay.Exp
	end := exp.Add(r.Skew)
	if sdl.Over(end, now) {
		return sdl.Replayed(sdl.ReplayExpired)
	}
	if exp.After(now.Add(window + r.Skew)) {
		return sdl.Refuse(sdl.BadRequest, "sec.replay.exp is more than %v ahead", window)
	}
	fresh, err := r.Nonces.Remember(ctx, e.From.AgentID, e.Sec.Replay.Nonce, end)
	switch {
	case errors.Is(err, ErrFull):
		refused := sdl.Replayed(ReplayFull)
		refused.Retryable = true
		return refused
	case err != nil:
		return &sdl.Error{Code: sdl.Internal, Retryable: true, Details: canonical.Object(), Reason: "nonces: " + err.Error()}
	case !fresh:
		return sdl.Replayed(sdl.ReplayDetected)
	}
	return nil
}
