package profiles

import (
	"context"
	"net/url"
	"strings"

	"github.com/slimwire/swp/e1"
)

// Mode is how binding a hint is (SWP profiles §16).
type Mode uint8

// The modes. A stronger one is greater.
const (
	May Mode = iota
	Should
	Must
)

var modes = [...]string{"MAY", "SHOULD", "MUST"}

// String returns the mode in the form of the wire.
func (m Mode) String() string { return modes[min(int(m), len(modes)-1)] }

// ParseMode reads a mode. White space around it and its case do not matter.
func ParseMode(text string) (Mode, bool) {
	text = strings.TrimSpace(text)
	for i, name := range modes {
		if strings.EqualFold(text, name) {
			return Mode(i), true
		}
	}
	return 0, false
}

// Hint is a constraint of a peer on work that is done for it.
type Hint struct {
	Key, Value string
	Mode       Mode
	Scope      string // connection, task:<hex>, rpc:<hex>, msg:<hex> or target:<name>
}

// Scopes of hints. All but the first are followed by a name, or by an id in hexadecimal.
const (
	ScopeConnection = "connection"
	ScopeTarget     = "target:"
	ScopeTask       = "task:"
	ScopeRPC        = "rpc:"
	ScopeMessage    = "msg:" // of one message; a peer sets it by extension 16 of the profile
)

// WithHints returns ctx with hints. The slice must not change afterwards.
func WithHints(ctx context.Context, hints []Hint) context.Context {
	c := carriedBy(ctx)
	c.hints = hints
	return c.in(ctx)
}

// WithPolicy returns ctx with the hints for an exchange, and the Policy that compares them
// with the request of the exchange. The slice must not change afterwards.
func WithPolicy(ctx context.Context, hints []Hint, p Policy) context.Context {
	c := carriedBy(ctx)
	c.hints, c.policy = hints, p
	return c.in(ctx)
}

// PolicyOf returns the Policy of the exchange of a context if one of its hints is a MUST,
// else nil.
func PolicyOf(ctx context.Context) Policy {
	c, ok := ctx.Value(carriedKey{}).(*carried)
	if !ok || c.policy == nil {
		return nil
	}
	for i := range c.hints {
		if c.hints[i].Mode == Must {
			return c.policy
		}
	}
	return nil
}

// AllHints returns all hints that ctx carries. The slice must not be changed.
func AllHints(ctx context.Context) []Hint { return carriedBy(ctx).hints }

// HintsOf returns the hints that ctx carries for an action on a name: an MCP server, a kind
// of task, a method. The name is the one that Access is asked about. The context of a
// handler carries the hints of its exchange; its MUST hints have passed the Policy. The
// strongest mode comes first.
func HintsOf(ctx context.Context, name string) []Hint {
	all := carriedBy(ctx).hints
	var list []Hint
	for mode := Must; ; mode-- {
		for _, h := range all {
			target, named := strings.CutPrefix(h.Scope, ScopeTarget)
			if h.Mode == mode && (!named || target == name) {
				list = append(list, h)
			}
		}
		if mode == May {
			return list
		}
	}
}

// OwnHints is HintsOf with the scope of the connection in place of the target's: for
// work that has another name where it is forwarded to, or that shares a connection with the
// work of others.
func OwnHints(ctx context.Context, name string) []Hint {
	hints := HintsOf(ctx, name)
	for i := range hints {
		if strings.HasPrefix(hints[i].Scope, ScopeTarget) {
			hints[i].Scope = ScopeConnection
		}
	}
	return hints
}

// maxHintText bounds what FormatHints returns, in octets.
const maxHintText = 4096

// FormatHints returns hints as one line of printable ASCII, for headers and environment
// variables: key=value;MODE items with ", " between them, key and value percent-encoded.
// Hints at the end are left out if the line would exceed 4,096 octets.
func FormatHints(hints []Hint) string {
	var b strings.Builder
	for _, h := range hints {
		next := url.QueryEscape(h.Key) + "=" + url.QueryEscape(h.Value) + ";" + h.Mode.String()
		if b.Len() > 0 {
			next = ", " + next
		}
		if b.Len()+len(next) > maxHintText {
			break
		}
		_, _ = b.WriteString(next)
	}
	return b.String()
}

// HeaderPolicy is the HTTP header that has hints in the form of FormatHints.
const HeaderPolicy = "Swp-Policy"

// ParseHints reads hints in the form of FormatHints, without scopes. The mode is required.
func ParseHints(text string) ([]Hint, error) {
	var list []Hint
	for item := range strings.SplitSeq(text, ",") {
		pair, mode, _ := strings.Cut(strings.TrimSpace(item), ";")
		key, value, hasValue := strings.Cut(pair, "=")
		h := Hint{Scope: ScopeConnection}
		var known bool
		var err error
		if h.Key, err = url.QueryUnescape(key); err == nil {
			h.Value, err = url.QueryUnescape(value)
		}
		if h.Mode, known = ParseMode(mode); err != nil || !known || !hasValue {
			return nil, Errorf(InvalidProfilePayload, "hint %.80q: want key=value;MODE, key and value percent-encoded, MODE MUST, SHOULD or MAY", item)
		}
		list = append(list, h)
	}
	return list, nil
}

// Policy compares acts with the hints of the peers that ask for them. The endpoint asks it
// about each message that is under a MUST, before the message is handled; work that begins
// later is compared again when it begins.
type Policy interface {
	// Violated returns the hint with mode MUST that forbids an act, or nil. ctx carries the
	// hints. Violated must not block, and is safe for concurrent use.
	Violated(ctx context.Context, act *Act) *Violation
}

// Violation is a hint with mode MUST that this endpoint cannot fulfil.
type Violation struct {
	Key, Scope, Reason string

	// Notice is the message that tells the peer. It has a new msg_id, and is sent before
	// the refusal.
	Notice e1.Envelope
}

// Refusal returns the *Error that refuses the action. It does not count against the error
// budget, because the peer set the hint itself.
func (v *Violation) Refusal() *Error {
	return &Error{Code: SecurityPolicy, Detail: "policy_hint", Text: v.Text(), Domain: true}
}

// Stopped begins the Text of a Violation.
const Stopped = "stopped by a policy hint"

// Text returns the violation as a sentence.
func (v *Violation) Text() string {
	scope := v.Scope
	if strings.HasPrefix(scope, ScopeMessage) {
		scope = "this message"
	}
	return Stopped + ": MUST " + v.Key + " for " + scope + ": " + v.Reason
}
