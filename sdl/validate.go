package sdl

import (
	"time"

	"github.com/slimwire/swp/sdl/canonical"
)

// Options configure Validate. The zero value has the defaults of A2A-SDL.
type Options struct {
	Limits   Limits
	Versions VersionPolicy
	Now      func() time.Time // default time.Now

	// OtherTypes allows content types NAME.vN beside the nine, for the sender of a request:
	// perhaps the receiver knows more. Their payload has the schema of the envelope alone.
	OtherTypes bool

	// Fetch loads the JSON object at the address of a descriptor of kind uri, within its
	// own limits of time and size. Validate checks its hash. Nil, the default, refuses such
	// descriptors.
	Fetch func(uri string) (canonical.Value, error)
}

func (o Options) withDefaults() Options {
	o.Limits = o.Limits.withDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Envelope is a view of an envelope that was checked.
type Envelope struct {
	Value    canonical.Value // all of it
	ID       string
	TS       time.Time
	Type     string // one of TypeReq, TypeRes, TypeEvt
	From, To Identity
	CT       string // one of ContentTypes, or another with Options.OtherTypes
	Schema   Descriptor
	Payload  canonical.Value // null while it is encrypted
	Trace    *Trace          // nil if there is none
	Sec      Sec

	o Options
}

// required is in the order of §2.1.
var required = []string{"v", "id", "ts", "type", "from", "to", "cap", "ct", "schema", "payload"}

// Validate checks an object of Decode: rows 2 to 13 of §2.2, and row 14 for a payload in
// clear. The first failing row decides. A descriptor of kind uri is refused in row 10 in
// every mode. The caller must check signatures, replay and encrypted payloads.
func Validate(v canonical.Value, o Options) (*Envelope, *Error) {
	e := &Envelope{Value: v, Payload: v.Get("payload"), o: o.withDefaults()}
	for _, row := range rows {
		if refused := row(e); refused != nil {
			return nil, refused
		}
	}
	return e, nil
}

// rows are the rows 2 to 14 of §2.2.
var rows = []func(*Envelope) *Error{
	func(e *Envelope) *Error {
		for _, name := range required {
			if !e.Value.Has(name) {
				return bad(name, "is missing")
			}
		}
		return nil
	},
	func(e *Envelope) *Error {
		if v, ok := e.Value.Get("v").Int64(); !ok || v != Version {
			return bad("v", "is not the integer %d", Version)
		}
		return nil
	},
	func(e *Envelope) (refused *Error) {
		var ok bool
		if e.ID, ok = filled(e.Value.Get("id")); !ok {
			return bad("id", "is no text or empty")
		}
		ts, _ := e.Value.Get("ts").Text()
		if e.TS, ok = ParseTime(ts); !ok {
			return bad("ts", "is no timestamp")
		}
		switch e.Type, _ = e.Value.Get("type").Text(); e.Type {
		case TypeReq, TypeRes, TypeEvt:
			return nil
		}
		return bad("type", "is none of req, res and evt")
	},
	func(e *Envelope) (refused *Error) {
		if e.From, refused = identity("from", e.Value.Get("from")); refused == nil {
			e.To, refused = identity("to", e.Value.Get("to"))
		}
		return refused
	},
	func(e *Envelope) *Error {
		capability := e.Value.Get("cap")
		if capability.Kind() != canonical.KindObject {
			return bad("cap", "is %v, want an object", capability.Kind())
		}
		return e.o.Versions.peer(capability)
	},
	func(e *Envelope) *Error {
		var ok bool
		if e.CT, ok = e.Value.Get("ct").Text(); !ok {
			return bad("ct", "is no text")
		}
		return nil
	},
	func(e *Envelope) *Error {
		_, _, named := ParseContentType(e.CT)
		if !IsContentType(e.CT) && !(named && e.o.OtherTypes) {
			return &Error{Code: UnsupportedCT, Retryable: true, Details: object(member("supported_ct", canonical.Strings(contentTypes...))), Reason: "unknown content type"}
		}
		return nil
	},
	func(e *Envelope) *Error { return e.o.Versions.contentType(e.CT, e.o.Now()) },
	func(e *Envelope) (refused *Error) {
		if e.Schema, refused = descriptor(e.Value.Get("schema")); refused == nil && e.Schema.URI != "" && e.o.Fetch == nil {
			return badSchema("schema.kind", "is uri, and schemas are not fetched here")
		}
		return refused
	},
	func(e *Envelope) (refused *Error) {
		e.Sec, refused = sec(e.Value.Get("sec"), e.Payload)
		return refused
	},
	func(e *Envelope) (refused *Error) {
		e.Trace, refused = trace(e.Value.Get("trace"), e.o.Limits)
		return refused
	},
	func(e *Envelope) *Error { return e.o.Limits.check(e.Value) },
	func(e *Envelope) *Error {
		if e.Sec.Encrypted() {
			return nil
		}
		return e.CheckPayload(e.Payload)
	},
}
