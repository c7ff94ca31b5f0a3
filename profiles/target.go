package profiles

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/slimwire/swp/e1"
)

// MaxTarget is the maximum length of a target in octets.
const MaxTarget = 256

// TargetOf returns the destination of a message (extension 52): names of partners joined by
// slashes, of which this endpoint knows the first. It is empty if the message is for this
// endpoint. The error is an *Error for a malformed target.
func TargetOf(ext e1.Extensions) (string, error) {
	if len(ext) == 0 { // the usual case
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

// CheckTarget returns an *Error if a target is empty, too long or not UTF-8, or if one of
// its names is empty.
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

// ErrTarget refuses a message with a target if its profile does not support targets.
var ErrTarget = &Error{
	Code: InvalidEnvelope, Detail: "target", Domain: true,
	Text: "a message of this kind is about one connection or has a name of its own for what it is for, and is not passed on by a target (extension 52)",
}

// Toward returns s with a target on every message that it sends. The peer forwards these
// messages to its partners, and the endpoint at the end of the target answers. Only a peer
// whose swp.info lists extension 52 under profile 0 supports targets.
func Toward(s Session, target string) Session {
	return Marked(s, toward(target))
}

// Beyond is Toward for a Lane.
func Beyond(lane Lane, target string) Lane {
	return &markedLane{Lane: lane, mark: toward(target)}
}

func toward(target string) func(*e1.Envelope) {
	return func(env *e1.Envelope) {
		env.Extensions = e1.AppendExtension(slices.Clip(env.Extensions), ExtTarget, []byte(target))
	}
}

// Marked returns s, which then calls mark with every message before it is sent. mark changes
// fields of the message, and must not change the octets that they refer to. Several
// goroutines call mark.
func Marked(s Session, mark func(*e1.Envelope)) Session {
	return &marked{Session: s, mark: mark}
}

// Acting returns s, which then sends every message on behalf of an identity of this
// endpoint, see WithCaller.
func Acting(s Session, identity string) Session {
	if m, ok := s.(*marked); ok {
		return &marked{m.Session, m.mark, identity}
	}
	return &marked{s, func(*e1.Envelope) {}, identity}
}

// Near returns the underlying lane of a lane that Marked has opened. Messages on it are for
// the peer itself, such as swp.sync, whose answer concerns the stream. Other lanes are
// returned unchanged.
func Near(lane Lane) Lane {
	if m, ok := lane.(*markedLane); ok {
		return m.Lane
	}
	return lane
}

// mark changes messages before they are sent.
type mark func(*e1.Envelope)

type marked struct {
	Session
	mark   mark
	caller string // empty: none
}

// acting returns ctx for messages on behalf of a caller; empty: of nobody in particular.
func acting(ctx context.Context, caller string) context.Context {
	if caller == "" {
		return ctx
	}
	return WithCaller(ctx, caller)
}

func (m *marked) Open(ctx context.Context) (Lane, error) {
	lane, err := m.Session.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &markedLane{lane, m.mark, m.caller}, nil
}

func (m *marked) Call(ctx context.Context, env e1.Envelope) (Call, error) {
	m.mark(&env)
	call, err := m.Session.Call(acting(ctx, m.caller), env)
	if err != nil {
		return nil, err
	}
	return markedCall{call, m.mark, m.caller}, nil
}

func (m *marked) Send(ctx context.Context, env e1.Envelope) error {
	m.mark(&env)
	return m.Session.Send(acting(ctx, m.caller), env)
}

type markedLane struct {
	Lane
	mark   mark
	caller string
}

func (m *markedLane) Call(ctx context.Context, env e1.Envelope) (Call, error) {
	m.mark(&env)
	call, err := m.Lane.Call(acting(ctx, m.caller), env)
	if err != nil {
		return nil, err
	}
	return markedCall{call, m.mark, m.caller}, nil
}

func (m *markedLane) Send(ctx context.Context, env e1.Envelope) error {
	m.mark(&env)
	return m.Lane.Send(acting(ctx, m.caller), env)
}

type markedCall struct {
	Call
	mark   mark
	caller string
}

func (m markedCall) Lane() Lane { return &markedLane{m.Call.Lane(), m.mark, m.caller} }
