package serve

import (
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// Audit is an audit chain (A2A-SDL §12). Its methods are called concurrently.
type Audit interface {
	// Of returns the chain for the requests of an identity that the carriage authenticated.
	Of(identity string) Audit

	// Ready returns an error if requests are to be refused because no entry can be added.
	Ready() error

	// Add adds an entry for a request, and returns the receipt for its answer; null for an
	// answer without a receipt. An error refuses the request.
	Add(event canonical.Value) (receipt canonical.Value, err error)

	// Longest returns a receipt that is as long as any.
	Longest() canonical.Value
}

// maxEventText bounds the texts of an event that are from a message, in octets.
const maxEventText = 512

// unready refuses a request for which no entry can be added.
func (s *Server) unready(err error, body []byte, form sdl.Form, caller Caller) *Outcome {
	refused := unaudited(err)
	v, unread := sdl.Decode(body, form, s.o.Limits)
	if unread == nil && mistyped(v, caller) {
		return &Outcome{Err: refused}
	}
	return s.withAudit(nil).refuse(v, refused, form)
}

// withAudit returns the server with another chain; nil for refusals that have no entry.
func (s *Server) withAudit(a Audit) *Server {
	with := *s
	with.o.Audit = a
	return &with
}

// unaudited is the refusal of a request that has no entry.
func unaudited(err error) *sdl.Error {
	return &sdl.Error{Code: sdl.Internal, Retryable: true, Reason: err.Error()}
}

// answer secures the answer to a request. The request can be any value. With an Audit it adds the
// entry first, and the answer has its receipt. An answer that would be refused has no entry.
func (s *Server) answer(request, v canonical.Value, signed, sealed bool, agent string) (canonical.Value, *sdl.Error) {
	if s.o.Audit == nil {
		return s.Secure(v, signed, sealed, agent)
	}
	event := eventOf(request, v)
	v, refused := s.seal(v, sealed, agent)
	if refused != nil {
		return v, refused
	}
	trace := v.Get("trace")
	if trace.IsNull() {
		trace = object(member("root_id", v.Get("id")), member("span_id", canonical.String(s.newID())), member("hops", canonical.Int(0)))
	}
	with := func(receipt canonical.Value) canonical.Value { return v.With("trace", trace.With("audit", receipt)) }
	if _, refused = s.sign(with(s.o.Audit.Longest()), signed); refused != nil {
		return v, refused
	}
	receipt, err := s.o.Audit.Add(event)
	if err != nil {
		return v, unaudited(err)
	}
	if !receipt.IsNull() {
		v = with(receipt)
	}
	return s.sign(v, signed)
}

func (s *Server) newID() string {
	if s.o.NewID != nil {
		return s.o.NewID()
	}
	return sdl.NewID()
}

// eventOf returns what the entry says of a request and its answer, which is not encrypted yet.
func eventOf(request, answer canonical.Value) canonical.Value {
	code := canonical.Value{}
	if text(answer.Get("ct")) == sdl.CTError {
		code = bounded(answer.Get("payload").Get("code"))
	}
	return object(
		member("request_id", bounded(request.Get("id"))),
		member("request_ct", bounded(request.Get("ct"))),
		member("request_from", bounded(request.Get("from").Get("agent_id"))),
		member("request_payload_present", canonical.Bool(!request.Get("payload").IsNull())),
		member("response_id", answer.Get("id")),
		member("response_ct", answer.Get("ct")),
		member("response_error_code", code),
	)
}

// bounded truncates a text between characters. Other values become null.
func bounded(v canonical.Value) canonical.Value {
	s, ok := v.Text()
	switch {
	case !ok:
		return canonical.Value{}
	case len(s) <= maxEventText:
		return v
	}
	n := maxEventText
	for n > 0 && s[n]&0xc0 == 0x80 { // within a character
		n--
	}
	return canonical.String(s[:n])
}
