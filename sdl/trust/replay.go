package trust

import (
	"context"
	"errors"
	"time"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// Nonces remembers used nonces.
type Nonces interface {
	// Remember records that an agent used a nonce, at least until exp. It is atomic: of all
	// calls for the same agent and nonce exactly one returns fresh. After an error the
	// result is unknown, and the nonce may not be recorded. The error is ErrFull if there
	// is no room.
	Remember(ctx context.Context, agent, nonce string, exp time.Time) (fresh bool, err error)
}

// ErrFull is the error of Nonces without room: no stored nonce has expired.
var ErrFull = errors.New("trust: no room for another nonce")

// ReplayFull is the details.reason for ErrFull. Like a refused admission (§9) it is
// temporary.
const ReplayFull = "replay_full"

// Replay refuses messages that were received before (§6.6). Its fields must not change
// while in use.
type Replay struct {
	Nonces Nonces

	// Window bounds how far ahead sec.replay.exp may be, default 10 minutes, and so how
	// long a nonce is remembered.
	Window time.Duration

	// Skew is how long after sec.replay.exp a message is still accepted, for differing
	// clocks; default 0. It also extends the window.
	Skew time.Duration
}

// Check records the nonce of an envelope with sec.replay. Verify its signature before. It
// may wait for the Nonces.
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
