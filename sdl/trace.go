package sdl

import (
	"math"

	"github.com/slimwire/swp/sdl/canonical"
)

// Trace is the position of an envelope in a chain of messages.
type Trace struct {
	RootID, SpanID string
	ParentSpanID   string // "" if there is none
	Hops           int
}

// trace reads the member of an envelope; nil if it has none (§2.5).
func trace(v canonical.Value, limits Limits) (*Trace, *Error) {
	if v.IsNull() {
		return nil, nil
	}
	if v.Kind() != canonical.KindObject {
		return nil, bad("trace", "is %v, want an object", v.Kind())
	}
	var t Trace
	var ok bool
	if t.RootID, ok = filled(v.Get("root_id")); !ok {
		return nil, bad("trace.root_id", "is no text or empty")
	}
	if t.SpanID, ok = filled(v.Get("span_id")); !ok {
		return nil, bad("trace.span_id", "is no text or empty")
	}
	if parent := v.Get("parent_span_id"); !parent.IsNull() {
		if t.ParentSpanID, ok = filled(parent); !ok {
			return nil, bad("trace.parent_span_id", "is no text or empty")
		}
	}
	hops, ok := v.Get("hops").Int64()
	if !ok || hops < 0 || hops > int64(limits.MaxHops) {
		return nil, bad("trace.hops", "is not an integer of 0 to %d", limits.MaxHops)
	}
	t.Hops = int(hops)
	return &t, nil
}

// answerTrace returns the trace of the answer to a request with trace v, which need not be
// valid; null if the answer has none. If the request has used all hops, the answer has the
// maximum number.
func answerTrace(v canonical.Value, limits Limits, newID func() string) canonical.Value {
	if v.Kind() != canonical.KindObject {
		return canonical.Value{}
	}
	span, hasSpan := filled(v.Get("span_id"))
	root, ok := filled(v.Get("root_id"))
	if !ok {
		if root = span; !hasSpan {
			root = newID()
		}
	}
	hops := min(hopsOf(v.Get("hops")), int64(limits.MaxHops)-1) + 1
	answer := object(
		member("root_id", canonical.String(root)),
		member("span_id", canonical.String(newID())),
		member("hops", canonical.Int(hops)),
	)
	if hasSpan {
		answer = answer.With("parent_span_id", canonical.String(span))
	}
	return answer
}

// hopsOf returns hops of any trace: 0 if absent, the maximum if it is too large.
func hopsOf(v canonical.Value) int64 {
	if hops, ok := v.Int64(); ok {
		return max(hops, 0)
	}
	if f, ok := v.Float64(); ok && f > 0 && v.Kind() == canonical.KindInteger {
		return math.MaxInt64
	}
	return 0
}
