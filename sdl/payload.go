package sdl

import (
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/schema"
)

// CheckPayload checks a payload against the limits, the schema of the envelope and the
// built-in schema of its content type: the schema of the sender is not sufficient (§4.2).
// Use it for decrypted payloads; Validate has checked a payload in clear.
func (e *Envelope) CheckPayload(payload canonical.Value) *Error {
	limits := e.o.Limits.withDefaults()
	if n := payload.JSONSize(); n > limits.MaxBytes {
		return bad("a payload of %d octets of canonical JSON, limit %d", n, limits.MaxBytes)
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
			return badSchema("the schema of the envelope: %v", err)
		}
	}
	if builtIn.compiled == nil { // of OtherTypes
		return nil
	}
	if err := builtIn.compiled.Validate(payload); err != nil {
		return badSchema("the schema of %s: %v", e.CT, err)
	}
	return nil
}

// schema returns the schema that the envelope names.
func (e *Envelope) schema() (*schema.Schema, *Error) {
	document := e.Schema.Embedded
	if e.Schema.URI != "" {
		var err error
		if document, err = e.o.Fetch(e.Schema.URI); err != nil {
			return nil, badSchema("schema.uri: %v", err)
		}
		if document.Kind() != canonical.KindObject || canonical.Hash(document) != e.Schema.ID {
			return nil, badSchema("the document at schema.uri is no object with the hash schema.id")
		}
	}
	s, err := schema.Compile(document)
	if err != nil {
		return nil, badSchema("%v", err)
	}
	return s, nil
}
