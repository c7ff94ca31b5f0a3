// Package schema holds inputs that peers send against the JSON Schemas that the
// operator wrote for them.
//
// A schema stands by itself: its references point into its own file or to the
// meta-schemas of JSON Schema, and nothing is ever fetched. An input is read
// within bounds that hold before it becomes a value, and without the ways in
// which two readers could take the same octets for different values: member
// names are unique, text is UTF-8, nothing follows the value.
package schema

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is a JSON Schema, of draft 2020-12 unless it says which. It is safe for
// concurrent use.
type Schema struct{ compiled *jsonschema.Schema }

// Load reads a schema from a file.
func Load(file string) (*Schema, error) {
	octets, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	doc, err := decode(octets)
	if err != nil {
		return nil, fmt.Errorf("schema: %s: %w", file, err)
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	at := (&url.URL{Scheme: "file", Path: filepath.ToSlash(abs)}).String()
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	if err := c.AddResource(at, doc); err != nil {
		return nil, fmt.Errorf("schema: %s: %w", file, err)
	}
	compiled, err := c.Compile(at)
	if err != nil {
		return nil, fmt.Errorf("schema: %s: %w", file, err)
	}
	return &Schema{compiled}, nil
}

// nowhere is where other documents are loaded from.
type nowhere struct{}

var errElsewhere = errors.New("schemas refer to nothing outside their own file")

// Load implements jsonschema.URLLoader.
func (nowhere) Load(string) (any, error) { return nil, errElsewhere }

// Validate returns the fault of an input. The text of the error is for the peer
// that sent it: it names a place in the input and the violated rule, and
// repeats nothing of the value there.
func (s *Schema) Validate(input []byte) error {
	v, err := decode(input)
	if err != nil {
		return err
	}
	err = s.compiled.Validate(v)
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return errors.New("the input cannot be held against its schema")
	}
	where, rule := first(invalid)
	return fmt.Errorf("the input breaks the rule %q of its schema at %q", rule, where)
}

// maxPlace bounds the place that an error names, in octets.
const maxPlace = 256

// first returns the first place in the input, in the order of their names, that
// is to blame by itself, and the keyword that it breaks.
func first(e *jsonschema.ValidationError) (where, rule string) {
	if len(e.Causes) == 0 {
		if path := e.ErrorKind.KeywordPath(); len(path) > 0 {
			rule = path[0]
		} else {
			rule = "false"
		}
		return place(e.InstanceLocation), rule
	}
	for i, cause := range e.Causes {
		w, r := first(cause)
		if i == 0 || w < where || w == where && r < rule {
			where, rule = w, r
		}
	}
	return where, rule
}

// place writes a location as a JSON Pointer.
func place(tokens []string) string {
	var b strings.Builder
	for _, token := range tokens {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
		if b.Len() > maxPlace {
			return strings.ToValidUTF8(b.String()[:maxPlace], "") + "…" // without a part of a character
		}
	}
	return b.String()
}
