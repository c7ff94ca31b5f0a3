package check

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/serve"
)

// delivery is a body to deliver.
type delivery struct {
	body      []byte
	mediaType string     // application/json if empty
	limits    sdl.Limits // of the server
}

// outcome is the result of a delivery.
type outcome struct {
	result   Result
	response canonical.Value // the answer, null if none was asked for
	payload  canonical.Value // of the message, in clear; null if it was refused
	diff     []string        // what is wrong with the answer itself
}

// failure is the result of a refusal.
func failure(e *sdl.Error) Result {
	code, retryable := string(e.Code), e.Retryable
	return Result{Outcome: refused, Code: &code, Retryable: &retryable, Details: details(e.Details)}
}

func details(v canonical.Value) json.RawMessage {
	if v.IsNull() {
		v = canonical.Object()
	}
	return v.AppendJSON(nil)
}

// form returns the form of the body. The length of the body is checked before its media
// type (A2A-SDL §2.2).
func (d delivery) form() (sdl.Form, *sdl.Error) {
	if refusal := d.limits.Body(len(d.body)); refusal != nil {
		return sdl.JSON, refusal
	}
	return sdl.FormOfMedia(d.mediaType)
}

// to delivers d to a server. The answer must be a valid envelope.
func (d delivery) to(ctx context.Context, server *serve.Server) outcome {
	form, refusal := d.form()
	var out *serve.Outcome
	if refusal != nil {
		out = server.Refuse(refusal)
	} else {
		out = server.Handle(ctx, d.body, form, serve.Caller{})
	}
	o := outcome{response: out.Response}
	if out.Request != nil {
		o.payload = out.Request.Payload
	}
	o.diff = wellFormed(out, form, d.limits)
	answer := out.Response.Get("payload")
	if out.Err != nil {
		// The sender sees the code of the answer, so that code is compared.
		code, _ := answer.Get("code").Text()
		retryable, _ := answer.Get("retryable").Bool()
		o.result = Result{Outcome: refused, Code: &code, Retryable: &retryable, Details: details(answer.Get("details"))}
		return o
	}
	o.result = Result{Outcome: accepted, Dispatch: dispatchOf(out.Response)}
	return o
}

// wellFormed finds faults of an answer, regardless of the expectation. The lowered limits
// of a case do not apply to it: a refusal needs a whole envelope.
func wellFormed(out *serve.Outcome, form sdl.Form, limits sdl.Limits) (diff []string) {
	limits = sdl.Limits{ // §1
		MaxBytes: max(limits.MaxBytes, 1<<20), MaxDepth: max(limits.MaxDepth, 64),
		MaxArray: max(limits.MaxArray, 10_000), MaxHops: max(limits.MaxHops, 8),
	}
	v, refusal := sdl.Decode(out.Answer, form, limits)
	if refusal != nil {
		return []string{fmt.Sprintf("answer: %v", refusal)}
	}
	if _, refusal = sdl.Validate(v, sdl.Options{Limits: limits}); refusal != nil {
		diff = append(diff, fmt.Sprintf("answer: %v", refusal))
	}
	return append(diff, same("answer", v, out.Response)...)
}

func dispatchOf(response canonical.Value) *Dispatch {
	d := &Dispatch{}
	d.CT, _ = response.Get("ct").Text()
	d.Type, _ = response.Get("type").Text()
	if d.CT == sdl.CTError {
		payload := response.Get("payload")
		d.Code, _ = payload.Get("code").Text()
		retryable, _ := payload.Get("retryable").Bool()
		d.Retryable = &retryable
	}
	return d
}

// take delivers d to a server, or makes only the checks of rows 0 to 14.
func (c *setup) take(ctx context.Context, server *serve.Server, d delivery) outcome {
	if !c.validateOnly {
		return d.to(ctx, server)
	}
	form, refusal := d.form()
	if refusal != nil {
		return outcome{result: failure(refusal)}
	}
	v, refusal := sdl.Decode(d.body, form, d.limits)
	if refusal == nil {
		_, refusal = sdl.Validate(v, sdl.Options{Limits: d.limits, Versions: c.options.Versions, Now: c.options.Now})
	}
	if refusal != nil {
		return outcome{result: failure(refusal)}
	}
	return outcome{result: Result{Outcome: accepted}}
}
