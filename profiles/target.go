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
	return &markedLane{lane, mark{env: toward(target)}}
}

func toward(target string) func(*e1.Envelope) {
	return func(env *e1.Envelope) {
		env.Extensions = e1.AppendExtension(slices.Clip(env.Extensions), ExtTarget, []byte(target))
	}
}

// Marked returns s, which then calls mark with every message before it is sent. mark changes
// fields of the message, and must not change the octets that they refer to. Several
// goroutines call mark.
func Marked(s Session, mark func(*e1.Envelope)) Session { return MarkedIn(s, mark, nil) }

// MarkedIn is Marked with the context of each message passed through within, such as one that
// has WithForward. Nil: they stay unchanged.
func MarkedIn(s Session, change func(*e1.Envelope), within func(context.Context) context.Context) Session {
	return &marked{s, mark{change, within}}
}

// Acting returns s, which then sends every message on behalf of an identity of this
// endpoint, see WithCaller.
func Acting(s Session, identity string) Session {
	acting := func(ctx context.Context) context.Context { return WithCaller(ctx, identity) }
	m, ok := s.(*marked)
	if !ok {
		return MarkedIn(s, func(*e1.Envelope) {}, acting)
	}
	within := m.mark.within
	return MarkedIn(m.Session, m.mark.env, func(ctx context.Context) context.Context {
		if within != nil {
			ctx = within(ctx)
		}
		return acting(ctx)
	})
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

// mark changes messages before they are sent, and their contexts.
type mark struct {
	env    func(*e1.Envelope)
	within func(context.Context) context.Context // may be nil
}

// on changes a message, and returns the context in which to send it.
func (m *mark) on(ctx context.Context, env *e1.Envelope) context.Context {
	m.env(env)
	if m.within != nil {
		ctx = m.within(ctx)
	}
	return ctx
}

func (m *mark) call(ctx context.Context, on Caller, env e1.Envelope) (Call, error) {
	call, err := on.Call(m.on(ctx, &env), env)
	if err != nil {
		return nil, err
	}
	return markedCall{call, *m}, nil
}

type marked struct {
	Session
	mark mark
}

func (m *marked) Open(ctx context.Context) (Lane, error) {
	if m.mark.within != nil {
		ctx = m.mark.within(ctx)
	}
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
	return m.Session.Send(m.mark.on(ctx, &env), env)
}

type markedLane struct {
	Lane
	mark mark
}

func (m *markedLane) Call(ctx context.Context, env e1.Envelope) (Call, error) {
	return m.mark.call(ctx, m.Lane, env)
}

func (m *markedLane) Send(ctx context.Context, env e1.Envelope) error {
	return m.Lane.Send(m.mark.on(ctx, &env), env)
}

// Room implements Room.
func (m *markedLane) Room(extensions int) int { return Room(m.Lane, extensions) }

type markedCall struct {
	Call
	mark mark
}

// Completed implements Completed.
func (m markedCall) Completed() { Completed(m.Call) }

func (m markedCall) Lane() Lane { return &markedLane{m.Call.Lane(), m.mark} }
