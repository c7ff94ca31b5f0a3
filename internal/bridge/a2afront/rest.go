package a2afront

import (
	"errors"
	"net/http"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/memory"
)

// rest serves an operation of the REST binding.
func (f *Front) rest(w http.ResponseWriter, r *http.Request, link Link, at *place, o a2abinding.Operation, held *memory.Hold) {
	c := &call{agent: at.agent, params: f.serviceParams(r)}
	out := &restAnswer{f: f, w: w, events: f.newEvents(w, held)}
	var body []byte
	if r.Method == http.MethodPost {
		var status int
		var err *a2abinding.Failure
		if body, status, err = f.body(w, r, held); err != nil {
			f.counts.refused.Add(1)
			f.writeJSON(w, status, err.AppendRESTAs(nil, status))
			return
		}
	}
	input, err := inputOf(o, at, r, body)
	if err != nil {
		f.counts.refused.Add(1)
		out.fail(failureOf(err))
		return
	}
	c.input = input
	if err := f.prepare(r, link, c, o.Name); err != nil {
		f.counts.refused.Add(1)
		if errors.Is(err, errHeaders) {
			f.writeJSON(w, http.StatusRequestHeaderFieldsTooLarge, errHeaders.AppendRESTAs(nil, http.StatusRequestHeaderFieldsTooLarge))
			return
		}
		out.fail(failureOf(err))
		return
	}
	if c.event = out.events.write; o.Streams {
		c.idle = out.events.comment
	}
	f.counts.rest.Add(1)
	ended, err := f.do(r.Context(), link, c)
	switch {
	case err != nil: // the client is gone
	case ended.failure != nil:
		out.fail(ended.failure)
	case o.Streams:
		out.events.begin()
	case len(ended.output) == 0:
		f.writeJSON(w, http.StatusOK, []byte("{}"))
	case !held.Answer(len(ended.output)):
		out.fail(noRoom)
	default:
		f.writeJSON(w, http.StatusOK, ended.output)
	}
}

// restAnswer is the response to a request of REST.
type restAnswer struct {
	f      *Front
	w      http.ResponseWriter
	events *events
}

// fail says an error: by the status, or in the stream where that has begun.
func (a *restAnswer) fail(failure *a2abinding.Failure) {
	object := failure.AppendREST(nil)
	if !a.events.begun {
		a.f.writeJSON(a.w, failure.Status(), object)
		return
	}
	_ = a.events.write(object) // or the client is gone
}
