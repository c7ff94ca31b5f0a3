package obs

import (
	"strings"

	"github.com/slimwire/swp/profiles"
)

// FromHeader returns the trace context of an HTTP request with canonical header names. As
// W3C Trace Context requires, it is zero without exactly one valid traceparent, and an
// invalid tracestate is dropped alone.
func FromHeader(h map[string][]string) profiles.Trace {
	parents := h["Traceparent"]
	if len(parents) != 1 {
		return profiles.Trace{}
	}
	t := profiles.Trace{Parent: parents[0]}
	if t.Parent == "" || Check(t) != nil {
		return profiles.Trace{}
	}
	t.State = strings.Join(h["Tracestate"], ",")
	if Check(t) != nil {
		t.State = ""
	}
	return t
}
