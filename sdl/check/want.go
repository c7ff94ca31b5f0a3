package check

import (
	"fmt"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// want is the expected result of one delivery.
type want struct {
	path    string
	outcome string

	// Of an error.
	code      string
	retryable bool
	details   canonical.Value // null if not given

	// Of what was accepted; null if not given.
	dispatch canonical.Value

	trace canonical.Value // of the answer; null if not given
}

// readWant reads one element of expected, or of recommended.
func readWant(s *shape) want {
	w := want{path: s.path, outcome: s.text("outcome")}
	switch w.outcome {
	case refused:
		w.code, w.retryable = s.text("code"), s.truth("retryable")
		if s.has("details") {
			w.details = s.of("details", canonical.KindObject)
		}
	case accepted:
		if s.has("dispatch") {
			w.dispatch = s.of("dispatch", canonical.KindObject)
			d := s.object("dispatch")
			d.text("ct")
			d.ignore("type", "code", "retryable") // compared where given
			d.done()
		}
		if s.has("dispatch_ct") {
			w.dispatch = canonical.Object(canonical.Member{Name: "ct", Value: s.of("dispatch_ct", canonical.KindString)})
		}
	default:
		s.fault("outcome", "%q: want %s or %s", w.outcome, accepted, refused)
	}
	if s.has("response_trace") {
		w.trace = s.of("response_trace", canonical.KindObject)
		if w.trace.Len() == 0 {
			s.fault("response_trace", "is empty")
		}
	}
	if s.has("response_hops") {
		w.trace = canonical.Object(canonical.Member{Name: "hops", Value: s.of("response_hops", canonical.KindInteger)})
	}
	s.done()
	return w
}

// compare returns the differences between an outcome and w.
func (w *want) compare(o *outcome) []string {
	diff := o.diff
	add := func(name, got, want string) {
		if got != want {
			diff = append(diff, fmt.Sprintf("%s%s: got %q, want %q", w.path, name, got, want))
		}
	}
	add("outcome", o.result.Outcome, w.outcome)
	if o.result.Outcome != w.outcome {
		if o.result.Code != nil {
			diff = append(diff, fmt.Sprintf("%scode: got %q", w.path, *o.result.Code))
		}
		return diff
	}
	if w.outcome == refused {
		add("code", *o.result.Code, w.code)
		add("retryable", fmt.Sprint(*o.result.Retryable), fmt.Sprint(w.retryable))
		if !w.details.IsNull() {
			got, err := canonical.ParseJSON(o.result.Details)
			if err != nil {
				diff = append(diff, w.path+"details: "+err.Error())
			}
			diff = append(diff, within(w.path+"details", got, w.details)...)
		}
	}
	if !w.dispatch.IsNull() {
		diff = append(diff, within(w.path+"dispatch", dispatchValue(o), w.dispatch)...)
	}
	if !w.trace.IsNull() {
		diff = append(diff, within(w.path+"response_trace", o.response.Get("trace"), w.trace)...)
	}
	return diff
}

// dispatchValue is the answer of the handler in the form of data files; null if none was
// called.
func dispatchValue(o *outcome) canonical.Value {
	if o.result.Dispatch == nil {
		return canonical.Value{}
	}
	d := canonical.Object(
		canonical.Member{Name: "ct", Value: o.response.Get("ct")},
		canonical.Member{Name: "type", Value: o.response.Get("type")},
	)
	if o.result.Dispatch.CT == sdl.CTError {
		payload := o.response.Get("payload")
		d = d.With("code", payload.Get("code")).With("retryable", payload.Get("retryable"))
	}
	return d
}
