package schema

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/slimwire/swp/sdl/canonical"
)

// Bounds of a document.
const (
	// MaxParts bounds the schemas in a document, itself included.
	MaxParts = 4096

	// MaxHeight bounds the length of a chain of schemas that apply to the same value,
	// through allOf, anyOf, oneOf, not and $ref.
	MaxHeight = 64
)

// part is a schema in a document, with its references to other schemas.
type part struct {
	cost   int  // steps for one value, without other schemas
	unique bool // has uniqueItems
	ref    string
	target *part                       // of ref
	single map[string]*part            // not, items, additionalProperties
	listed map[string][]*part          // allOf, anyOf, oneOf
	named  map[string]map[string]*part // properties, $defs

	here   []*part // schemas that apply to the same value
	height int     // length of the longest chain of these; 0 while unknown
	inside bool    // true while measure computes the height
}

// reader reads a document.
type reader struct{ parts []*part }

// document returns the root of a document, and the document without annotations. The
// address and the dialect that it declares are ignored.
func (r *reader) document(v canonical.Value) (*part, any, error) {
	if v.Kind() != canonical.KindObject {
		return nil, nil, fmt.Errorf("the document is %v, want an object", v.Kind())
	}
	root, clean, err := r.read(v)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range r.parts {
		if p.ref == "" {
			continue
		}
		if p.target = root.find(p.ref); p.target == nil {
			return nil, nil, errors.New("a reference to no schema of the document")
		}
		p.here = append(p.here, p.target)
	}
	for _, p := range r.parts {
		if err := p.measure(); err != nil {
			return nil, nil, err
		}
	}
	return root, clean, nil
}

// read reads a schema, and returns the schema for the validator.
func (r *reader) read(v canonical.Value) (*part, any, error) {
	p := &part{cost: 1, single: map[string]*part{}, listed: map[string][]*part{}, named: map[string]map[string]*part{}}
	if r.parts = append(r.parts, p); len(r.parts) > MaxParts {
		return nil, nil, fmt.Errorf("more than %d schemas", MaxParts)
	}
	if v.Kind() == canonical.KindBool {
		return p, v.Any(), nil
	}
	if v.Kind() != canonical.KindObject {
		return nil, nil, fmt.Errorf("a schema is %v, want an object or a boolean", v.Kind())
	}
	clean := make(map[string]any, v.Len())
	for keyword, m := range v.Members() {
		if annotations[keyword] {
			continue
		}
		var err error
		if clean[keyword], err = r.keyword(p, keyword, m); err != nil {
			return nil, nil, err
		}
	}
	return p, clean, nil
}

// annotations are the keywords without an effect on validity.
var annotations = map[string]bool{
	"$schema": true, "$id": true, "$comment": true, "title": true, "description": true,
	"default": true, "examples": true, "format": true,
}

// keyword reads a keyword of p, and returns its value for the validator.
func (r *reader) keyword(p *part, keyword string, v canonical.Value) (clean any, err error) {
	switch keyword {
	case "type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
	case "minLength", "maxLength", "minItems", "maxItems":
		n, ok := v.Float64()
		if !ok || n < 0 || n != math.Trunc(n) {
			return nil, fmt.Errorf("%s is no length", keyword)
		}
		if n > math.MaxInt32 { // no value is that long
			v = canonical.Int(math.MaxInt32)
		}
	case "required":
		p.cost += v.Len()
	case "const", "enum":
		p.cost += v.Len() + v.JSONSize()/octetsPerStep
	case "uniqueItems":
		p.unique, _ = v.Bool()
	case "$ref":
		if p.ref, _ = v.Text(); !strings.HasPrefix(p.ref, "#") {
			return nil, errors.New("a reference out of the document")
		}
	case "not", "items", "additionalProperties":
		p.single[keyword], clean, err = r.read(v)
		if keyword == "not" {
			p.here = append(p.here, p.single[keyword])
		}
		return clean, err
	case "allOf", "anyOf", "oneOf":
		return r.list(p, keyword, v)
	case "properties", "$defs":
		return r.names(p, keyword, v)
	default:
		return nil, fmt.Errorf("keyword %.100q is not supported", keyword)
	}
	return v.Any(), nil
}

func (r *reader) list(p *part, keyword string, v canonical.Value) (any, error) {
	if v.Kind() != canonical.KindArray {
		return nil, fmt.Errorf("%s is %v, want an array", keyword, v.Kind())
	}
	cleans := make([]any, 0, v.Len())
	for element := range v.All() {
		inner, clean, err := r.read(element)
		if err != nil {
			return nil, err
		}
		p.listed[keyword] = append(p.listed[keyword], inner)
		cleans = append(cleans, clean)
	}
	p.here = append(p.here, p.listed[keyword]...)
	return cleans, nil
}

func (r *reader) names(p *part, keyword string, v canonical.Value) (any, error) {
	if v.Kind() != canonical.KindObject {
		return nil, fmt.Errorf("%s is %v, want an object", keyword, v.Kind())
	}
	p.named[keyword] = make(map[string]*part, v.Len())
	cleans := make(map[string]any, v.Len())
	for name, m := range v.Members() {
		inner, clean, err := r.read(m)
		if err != nil {
			return nil, err
		}
		p.named[keyword][name] = inner
		cleans[name] = clean
	}
	return cleans, nil
}

// find returns the schema below p that a reference points to: a JSON Pointer in a fragment.
// It is nil if there is no schema at that place.
func (p *part) find(ref string) *part {
	pointer, err := url.PathUnescape(strings.TrimPrefix(ref, "#"))
	if err != nil || pointer != "" && pointer[0] != '/' {
		return nil
	}
	tokens := strings.Split(pointer, "/")[1:]
	for len(tokens) > 0 && p != nil {
		keyword := tokens[0]
		tokens = tokens[1:]
		if inner, ok := p.single[keyword]; ok {
			p = inner
			continue
		}
		if len(tokens) == 0 {
			return nil
		}
		token := strings.NewReplacer("~1", "/", "~0", "~").Replace(tokens[0])
		tokens = tokens[1:]
		if all, ok := p.named[keyword]; ok {
			p = all[token]
			continue
		}
		i, err := strconv.Atoi(token)
		if err != nil || i < 0 || i >= len(p.listed[keyword]) {
			return nil
		}
		p = p.listed[keyword][i]
	}
	return p
}

// measure computes the height of p. It fails if a chain from p leads back to p.
func (p *part) measure() error {
	if p.inside {
		return errors.New("references go in a circle")
	}
	if p.height > 0 {
		return nil
	}
	p.inside = true
	p.height = 1
	for _, inner := range p.here {
		if err := inner.measure(); err != nil {
			return err
		}
		p.height = max(p.height, 1+inner.height)
	}
	p.inside = false
	if p.height > MaxHeight {
		return fmt.Errorf("a value is held against more than %d schemas in a chain", MaxHeight)
	}
	return nil
}
