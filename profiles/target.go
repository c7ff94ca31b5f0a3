package profiles

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/slimwire/swp/e1"
)

// MaxTarget is how many octets a target has at most.
const MaxTarget = 256

// TargetOf returns where a message goes (extension 52): the names of partners with a
// slash between them, the first of which this endpoint knows. It is empty if the message
// is for this endpoint. The error is an *Error for a target that is none.
func TargetOf(ext e1.Extensions) (string, error) {
	if len(ext) == 0 { // as most messages have it, at no cost
		return "", nil
	}
	return targetIn(ext)
}

func targetIn(ext e1.Extensions) (string, error) {
	octets, ok := ext.Lookup(ExtTarget)
	if !ok {
		return "", nil
	}
	target := string(octets)
	if err := CheckTarget(target); err != nil {
		return "", err
	}
	return target, nil
}

// CheckTarget returns the *Error for a target that is none: it is empty or too long, is
// no UTF-8, or one of its names is empty.
func CheckTarget(target string) error {
	switch {
	case target == "", len(target) > MaxTarget:
		return badTarget("%d octets, want 1 to %d", len(target), MaxTarget)
	case !utf8.ValidString(target):
		return badTarget("not UTF-8")
	}
	for name := range strings.SplitSeq(target, "/") {
		if name == "" {
			return badTarget("%.80q has an empty name", target)
		}
	}
	return nil
}

func badTarget(format string, args ...any) *Error {
	return &Error{Code: InvalidEnvelope, Detail: "target", Text: "target (extension 52): " + fmt.Sprintf(format, args...)}
}

// ErrTarget refuses a message with a target whose profile is not passed on.
var ErrTarget = &Error{
	Code: InvalidEnvelope, Detail: "target", Domain: true,
	Text: "a message of this kind is about one connection or has a name of its own for what it is for, and is not passed on by a target (extension 52)",
}

// Toward returns s with a target on every message that it sends, for a peer that passes
// them on to its partners. Answers are those of the endpoint at the end of the target.
// Only a peer whose swp.info lists extension 52 of any profile (0) heeds a target.
func Toward(s Session, target string) Session {
	return Marked(s, func(ext e1.Extensions) e1.Extensions {
		return e1.AppendExtension(ext, ExtTarget, []byte(target))
	})
}

// Marked returns s with what mark appends to the extensions of every message that it
// sends. mark is called by several goroutines.
func Marked(s Session, mark func(e1.Extensions) e1.Extensions) Session {
	return &marked{Session: s, mark: mark}
}

// Near returns the lane itself of one that Marked has opened: what is sent there is for
// the peer, such as swp.sync, whose answer is about the stream. Other lanes are returned
// as they are.
func Near(lane Lane) Lane {
	if m, ok := lane.(*markedLane); ok {
		return m.Lane
	}
	return lane
}

// mark appends extensions to those of messages.
type mark func(e1.Extensions) e1.Extensions

func (m mark) call(ctx context.Context, on Caller, env e1.Envelope) (Call, error) {
	env.Extensions = m(env.Extensions)
	call, err := on.Call(ctx, env)
	if err != nil {
		return nil, err
	}
	return markedCall{call, m}, nil
}

type marked struct {
	Session
	mark mark
}

func (m *marked) Open(ctx context.Context) (Lane, error) {
	lane, err := m.Session.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &markedLane{lane, m.mark}, nil
}

func (m *marked) Call(ctx context.Context, env e1.Envelope) (Call, error) {
	return m.mark.call(ctx, m.Session, env)
}

func (m *marked) Send(ctx context.Context, env e1.Envelope) error {
	env.Extensions = m.mark(env.Extensions)
	return m.Session.Send(ctx, env)
}

type markedLane struct {
	Lane
	mark mark
}

func (m *markedLane) Call(ctx context.Context, env e1.Envelope) (Call, error) {
	return m.mark.call(ctx, m.Lane, env)
}

func (m *markedLane) Send(ctx context.Context, env e1.Envelope) error {
	env.Extensions = m.mark(env.Extensions)
	return m.Lane.Send(ctx, env)
}

type markedCall struct {
	Call
	mark mark
}

func (m markedCall) Lane() Lane { return &markedLane{m.Call.Lane(), m.mark} }
