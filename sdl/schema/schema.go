// Package schema validates payloads of A2A-SDL against JSON Schemas that their senders
// wrote.
//
// A schema from a peer is untrusted code. So the set of keywords is closed: unknown
// keywords are refused, and so are keywords with a misleading meaning, references to other
// documents, and keywords that cost more than their length. References stay in the document
// and cannot be cyclic. The work of a validation is counted before it starts. The
// validation itself is done by a library for draft 2020-12 of JSON Schema.
//
// Specification: A2A-SDL §4.2.
package schema

import (
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/slimwire/swp/sdl/canonical"
)

// Schema is a schema that was checked. It is safe for concurrent use.
type Schema struct {
	compiled *jsonschema.Schema
	root     *part
}

// Compile returns the schema in a document, which must be an object.
func Compile(document canonical.Value) (*Schema, error) {
	var r reader
	root, clean, err := r.document(document)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource(here, clean); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	compiled, err := c.Compile(here)
	if err != nil {
		return nil, errors.New("schema: a keyword has a value that JSON Schema does not allow")
	}
	return &Schema{compiled, root}, nil
}

// here is the address of a document. No reference in it can name this address.
const here = "urn:a2a-sdl:schema"

// nowhere is a URLLoader that loads nothing.
type nowhere struct{}

// Load implements jsonschema.URLLoader.
func (nowhere) Load(string) (any, error) { return nil, errors.New("nothing is loaded") }

// Validate checks a value against s. The error names the violated keyword and its place,
// and quotes nothing of the value.
func (s *Schema) Validate(v canonical.Value) error {
	w := work{left: MaxSteps}
	if !w.visit(s.root, v) {
		return fmt.Errorf("schema: validation takes more than %d steps", MaxSteps)
	}
	err := s.compiled.Validate(v.Any())
	if invalid := (*jsonschema.ValidationError)(nil); errors.As(err, &invalid) {
		where, keyword := first(invalid)
		return fmt.Errorf("schema: %.100q breaks %q", where, keyword)
	}
	return err
}
