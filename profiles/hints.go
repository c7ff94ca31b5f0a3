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
	Scope      string // connection, task:<hex>, rpc:<hex> or target:<name>
}

// Scopes of hints. All but the first are followed by a name, or by an id in hexadecimal.
const (
	ScopeConnection = "connection"
	ScopeTarget     = "target:"
	ScopeTask       = "task:"
	ScopeRPC        = "rpc:"
)

// WithHints returns ctx with the hints for what is done in it. Nobody changes
// the slice.
func WithHints(ctx context.Context, hints []Hint) context.Context {
	c := carriedBy(ctx)
	c.hints = hints
	return c.in(ctx)
}

// AllHints returns the hints that ctx carries, for any action. Nobody changes the slice.
func AllHints(ctx context.Context) []Hint { return carriedBy(ctx).hints }

// HintsOf returns the hints that ctx carries for an action under a name, as
// Access has it: an MCP server, a kind of task, a method. Contexts of handlers
// carry the hints of their exchange. A MUST among them is one that a Policy let
// pass. The strongest come first.
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

// maxHintText bounds what FormatHints returns, in octets.
const maxHintText = 4096

// FormatHints returns hints as one line of printable ASCII, for the headers and
// the environment of programs: key=value;MODE, key and value percent-encoded, with
// ", " between them. Hints beyond 4,096 octets are left out, from the end.
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

// Policy holds what is about to be done for a peer against the hints of that
// peer. It is asked where Access allowed it.
type Policy interface {
	// Violated returns the hint with mode MUST that forbids an action, or nil.
	// ctx carries the hints; profile and name are those that Access was asked
	// about. It must not block, and is safe for concurrent use.
	Violated(ctx context.Context, profile, name string) *Violation
}

// Violation is a hint with mode MUST that cannot be kept.
type Violation struct {
	Key, Scope, Reason string

	// Notice tells the peer, under a new msg_id. It is sent before the action
	// is refused.
	Notice e1.Envelope
}

// Refusal is the *Error that refuses the action. It is the peer's own wish, so
// it costs nothing.
func (v *Violation) Refusal() *Error {
	return &Error{Code: SecurityPolicy, Detail: "policy_hint", Text: v.Text(), Domain: true}
}

// Text says it for people.
func (v *Violation) Text() string {
	return "stopped by a policy hint: MUST " + v.Key + " for " + v.Scope + ": " + v.Reason
}
