package check

import (
	"context"
	"time"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/serve"
)

// step is a request of a flow and the answer to it.
type step struct {
	path       string
	envelope   canonical.Value
	invalid    bool // full validation refuses the request
	ct, kind   string
	payload    canonical.Value
	capTools   canonical.Value
	bindingDoc string // "" if not given
}

// loadFlow reads a row with an exchange that one server answers.
func loadFlow(row canonical.Value, _ string, keys *Keys) (Case, error) {
	s := newShape(row)
	name, now := s.text("id"), s.time("now")
	setup := readConfig(s.object("config"), now, keys)
	var steps []step
	for _, e := range s.elements("steps") {
		steps = append(steps, readStep(e, sdl.FormatTime(now)))
	}
	if len(steps) == 0 {
		s.fault("steps", "there is none")
	}
	s.done()
	return Case{name, func(ctx context.Context) ([]Result, []string) {
		if len(*s.diff) > 0 {
			return nil, *s.diff
		}
		return setup.play(ctx, steps)
	}}, nil
}

func readStep(s *shape, ts string) step {
	s.ignore("reason") // a label for the reader
	st := step{path: s.path}
	request := s.object("request")
	ct := request.text("ct")
	st.envelope = envelope(ts, ct, request.of("from", canonical.KindObject), request.of("to", canonical.KindObject), request.get("payload"))
	request.done()
	if s.has("request_passes_validation") {
		st.invalid = !s.truth("request_passes_validation")
	}
	if s.has("binding_doc_canonical") {
		st.bindingDoc = s.text("binding_doc_canonical")
	}
	response := s.object("response")
	st.ct, st.kind = response.text("ct"), response.text("type")
	st.payload = response.of("payload", canonical.KindObject)
	st.capTools = response.of("cap_tools", canonical.KindArray)
	response.done()
	s.done()
	return st
}

// envelope wraps a request of a flow.
func envelope(ts, ct string, from, to, payload canonical.Value) canonical.Value {
	m := func(name string, v canonical.Value) canonical.Member { return canonical.Member{Name: name, Value: v} }
	text := canonical.String
	return canonical.Object(
		m("v", canonical.Int(sdl.Version)), m("id", text("flow-request")), m("ts", text(ts)), m("type", text(sdl.TypeReq)),
		m("from", from), m("to", to), m("ct", text(ct)), m("schema", sdl.Schema(ct)), m("payload", payload),
		m("cap", canonical.Object(
			m("a2a_sdl", canonical.Object(m("v", canonical.Int(sdl.Version)),
				m("enc", canonical.Strings("json")), m("sig", canonical.Strings("ed25519")),
				m("kex", canonical.Strings("x25519")), m("comp", canonical.Array()))),
			m("tools", canonical.Array()), m("modalities", canonical.Strings("text")), m("limits", sdl.Limits{}.Value()),
		)),
	)
}

func (c *setup) play(ctx context.Context, steps []step) ([]Result, []string) {
	server, err := c.server()
	if err != nil {
		return nil, []string{"config: " + err.Error()}
	}
	var results []Result
	var diff []string
	signedDocs := 0
	for i := range steps {
		st := &steps[i]
		out, faults := st.deliver(ctx, server, c.now)
		for _, f := range append(faults, wellFormed(out, sdl.JSON, sdl.Limits{})...) {
			diff = append(diff, st.path+f)
		}
		r := Result{Outcome: accepted, Dispatch: dispatchOf(out.Response)}
		if out.Err != nil {
			r = failure(out.Err)
		}
		results = append(results, r)
		diff = append(diff, st.compare(out.Response)...)
		if string(proposal(st.envelope.Get("payload")).AppendJSON(nil)) == c.signedDoc {
			signedDocs++
		}
	}
	if c.signedDoc != "" && signedDocs == 0 {
		diff = append(diff, "config.signed_doc_canonical: no step proposes this")
	}
	return results, diff
}

// deliver sends the request as a body. If full validation must refuse it, the request is
// also passed to its handler, whose answer is compared.
func (st *step) deliver(ctx context.Context, server *serve.Server, now time.Time) (*serve.Outcome, []string) {
	out := server.Handle(ctx, st.envelope.AppendJSON(nil), sdl.JSON, serve.Caller{})
	switch {
	case !st.invalid && out.Err != nil:
		return out, []string{"request: " + out.Err.Error()}
	case !st.invalid:
		return out, nil
	case out.Err == nil:
		return out, []string{"request_passes_validation: got true, want false"}
	}
	e := &sdl.Envelope{Value: st.envelope, Type: sdl.TypeReq, From: identity(st.envelope.Get("from")), To: identity(st.envelope.Get("to"))}
	e.CT, _ = st.envelope.Get("ct").Text()
	out = server.Dispatch(ctx, &serve.Request{Envelope: e, Payload: st.envelope.Get("payload"), Now: now})
	out.Answer = out.Response.AppendJSON(nil)
	return out, nil
}

func identity(v canonical.Value) (i sdl.Identity) {
	i.AgentID, _ = v.Get("agent_id").Text()
	i.Name, _ = v.Get("name").Text()
	i.Instance, _ = v.Get("instance").Text()
	i.Role, _ = v.Get("role").Text()
	return i
}

func (st *step) compare(response canonical.Value) []string {
	text := canonical.String
	diff := same(st.path+"response.ct", response.Get("ct"), text(st.ct))
	diff = append(diff, same(st.path+"response.type", response.Get("type"), text(st.kind))...)
	diff = append(diff, same(st.path+"response.cap_tools", response.Get("cap").Get("tools"), st.capTools)...)
	diff = append(diff, same(st.path+"response.from", response.Get("from"), st.envelope.Get("to"))...)
	diff = append(diff, same(st.path+"response.to", response.Get("to"), st.envelope.Get("from"))...)

	got, wanted := response.Get("payload"), st.payload
	if st.ct == sdl.CTError {
		// Its details may have more members than are listed.
		diff = append(diff, within(st.path+"response.payload.details", got.Get("details"), wanted.Get("details"))...)
		got, wanted = got.Without("details"), wanted.Without("details")
	}
	diff = append(diff, alike(st.path+"response.payload", got, wanted)...)
	if st.bindingDoc != "" {
		doc, err := canonical.ParseJSON([]byte(st.bindingDoc))
		if err != nil {
			return append(diff, st.path+"binding_doc_canonical: "+err.Error())
		}
		diff = append(diff, same(st.path+"binding_doc_canonical", text(string(doc.AppendJSON(nil))), text(st.bindingDoc))...)
		diff = append(diff, same(st.path+"binding_doc_canonical hashed", response.Get("payload").Get("binding_id"), text(canonical.Hash(doc)))...)
	}
	return diff
}

// proposal is the document that approvals sign (A2A-SDL §10.4).
func proposal(payload canonical.Value) canonical.Value {
	doc := canonical.Object(canonical.Member{Name: "merge", Value: canonical.Bool(true)})
	for _, name := range []string{"op", "proposal_id", "merge", "registry"} {
		if payload.Has(name) {
			doc = doc.With(name, payload.Get(name))
		}
	}
	return doc
}
