package sdl

import (
	"fmt"

	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/schema"
)

// CheckPayload checks a payload against the limits, the schema of the envelope and the
// built-in schema of its content type: the schema of the sender is not sufficient (§4.2).
// Use it for decrypted payloads; Validate has checked a payload in clear.
func (e *Envelope) CheckPayload(payload canonical.Value) *Error {
	limits := e.o.Limits.withDefaults()
	if n := payload.JSONSize(); n > limits.MaxBytes {
		return overLimit("max_bytes", limits.MaxBytes, "a payload of %d octets of canonical JSON, limit %d", n, limits.MaxBytes)
	}
	if refused := limits.shape(1+payload.Depth(), payload.MaxArray()); refused != nil {
		return refused
	}
	builtIn := builtIns()[e.CT]
	if e.Schema.ID != builtIn.id {
		own, refused := e.schema()
		if refused != nil {
			return refused
		}
		if err := own.Validate(payload); err != nil {
			return e.misfit("does not fit the schema of the envelope: %v", err)
		}
	}
	if builtIn.compiled == nil { // of OtherTypes
		return nil
	}
	if err := builtIn.compiled.Validate(payload); err != nil {
		return e.misfit("does not fit the schema of %s: %v", e.CT, err)
	}
	return nil
}

// misfit refuses the payload. Of an encrypted one nothing is sent in clear.
func (e *Envelope) misfit(reason string, args ...any) *Error {
	refused := badSchema("payload", reason, args...)
	if e.Sec.Encrypted() {
		refused.Member = ""
	}
	return refused
}

// schema returns the schema that the envelope names.
func (e *Envelope) schema() (*schema.Schema, *Error) {
	document := e.Schema.Embedded
	if e.Schema.URI != "" {
		var err error
		if document, err = e.o.Fetch(e.Schema.URI); err != nil {
			return nil, fetched("schema.uri: %v", err)
		}
		if document.Kind() != canonical.KindObject || canonical.Hash(document) != e.Schema.ID {
			return nil, fetched("the document at schema.uri is no object with the hash schema.id")
		}
	}
	s, err := schema.Compile(document)
	switch {
	case err != nil && e.Schema.URI != "":
		return nil, fetched("the schema at schema.uri: %v", err)
	case err != nil:
		return nil, badSchema("schema.embedded", "is no usable schema: %v", err)
	}
	return s, nil
}

// fetched refuses a schema at a URI. The peer gets the member only: the reason may describe the
// network and the documents of this side.
func fetched(reason string, args ...any) *Error {
	return &Error{
		Code: SchemaInvalid, Retryable: true, Reason: fmt.Sprintf(reason, args...),
		Details: object(member("member", canonical.String("schema.uri"))),
	}
}
