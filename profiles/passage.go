package profiles

import (
	"context"
	"fmt"
	"time"

	"github.com/slimwire/swp/e1"
)

// Passage is what a message says of its way, in extensions of any profile: how
// many endpoints have passed it on (48), and how long it may take (49).
type Passage struct {
	Hops     uint64
	Deadline time.Time // zero: none was given
}

// PassageOf reads the passage of a message that came at a time.
func PassageOf(ext e1.Extensions, now time.Time) Passage {
	var p Passage
	p.Hops, _ = ext.LookupUvarint(ExtHops) // whoever has read the message has held it to be one
	if ms, ok := ext.LookupUvarint(ExtDeadline); ok {
		p.Deadline = now.Add(time.Duration(min(ms, maxDeadline)) * time.Millisecond)
	}
	return p
}

// maxDeadline is what a longer deadline counts as, in milliseconds: a year.
const maxDeadline = 365 * 24 * 3600 * 1000

// Append appends the extensions of the forwarded message: one hop more, and the
// rest of its time, a millisecond at least. Before a message is passed on Spent
// is asked.
func (p Passage) Append(ext e1.Extensions, now time.Time) e1.Extensions {
	ext = e1.AppendExtensionUvarint(ext, ExtHops, p.Hops+1)
	if !p.Deadline.IsZero() {
		ext = e1.AppendExtensionUvarint(ext, ExtDeadline, uint64(max(1, p.Deadline.Sub(now).Milliseconds())))
	}
	return ext
}

// Spent returns the *Error for a message that may not be forwarded any more, nil
// if it may.
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

// Ahead sends on a lane what belongs ahead of a call. env is the request as it will
// go out, its msg_id among it, and Ahead may append extensions to it.
type Ahead func(ctx context.Context, lane Lane, env *e1.Envelope) error

// WithAhead returns ctx for one Call of a Lane or a Session: f is called before the
// request is sent, on the same lane and with a context that has no Ahead, and its
// error is the error of the call. Nil takes it back.
func WithAhead(ctx context.Context, f Ahead) context.Context {
	return context.WithValue(ctx, aheadKey{}, f)
}

// AheadOf returns what is to be sent ahead of a call in ctx, or nil.
func AheadOf(ctx context.Context) Ahead {
	f, _ := ctx.Value(aheadKey{}).(Ahead)
	return f
}
