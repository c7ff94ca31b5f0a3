package profiles

import (
	"context"
	"fmt"
	"time"

	"github.com/slimwire/swp/e1"
)

// Passage is the forwarding state of a message: how many endpoints have forwarded it
// (extension 48), and how much time is left (extension 49).
type Passage struct {
	Hops     uint64
	Deadline time.Time // zero: none was given
}

// PassageOf reads the passage of a message that arrived at a given time.
func PassageOf(ext e1.Extensions, now time.Time) Passage {
	var p Passage
	p.Hops, _ = ext.LookupUvarint(ExtHops) // validated when the message was read
	if ms, ok := ext.LookupUvarint(ExtDeadline); ok {
		p.Deadline = now.Add(time.Duration(min(ms, maxDeadline)) * time.Millisecond)
	}
	return p
}

// maxDeadline is the longest deadline, in milliseconds: a year. Longer ones are cut to it.
const maxDeadline = 365 * 24 * 3600 * 1000

// Append appends the extensions for the forwarded message: one hop more, and the time that
// is left, at least a millisecond. Call Spent before forwarding.
func (p Passage) Append(ext e1.Extensions, now time.Time) e1.Extensions {
	ext = e1.AppendExtensionUvarint(ext, ExtHops, p.Hops+1)
	if !p.Deadline.IsZero() {
		ext = e1.AppendExtensionUvarint(ext, ExtDeadline, uint64(max(1, p.Deadline.Sub(now).Milliseconds())))
	}
	return ext
}

// Spent returns the *Error for a message that has had MaxHops hops and must not be
// forwarded, nil for any other.
func (p Passage) Spent() *Error {
	if p.Hops < MaxHops {
		return nil
	}
	return &Error{
		Code: SecurityPolicy, Detail: "hops", Domain: true,
		Text: fmt.Sprintf("passed on %d times already, which is the limit; partners may be forwarding in a circle", p.Hops),
	}
}

type aheadKey struct{}

// Ahead sends messages on a lane that must precede another. env is that message as it will be
// sent, with its msg_id, see Envelope.Joined; Ahead may append extensions to it.
type Ahead func(ctx context.Context, lane Lane, env *e1.Envelope) error

// WithAhead returns ctx for one Call or Send of a Lane or a Session. f is called before the
// message is sent, with the same lane and a context without Ahead; its error becomes that of the
// call. A message of Send that opens nothing, or ends something, goes without it. Nil removes an
// Ahead that ctx has.
func WithAhead(ctx context.Context, f Ahead) context.Context {
	return context.WithValue(ctx, aheadKey{}, f)
}

// AheadOf returns the Ahead of ctx, or nil.
func AheadOf(ctx context.Context) Ahead {
	f, _ := ctx.Value(aheadKey{}).(Ahead)
	return f
}
