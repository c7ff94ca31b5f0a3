package sdl

import (
	"strings"

	"github.com/slimwire/swp/sdl/canonical"
)

// Descriptor names the schema of a payload (§4).
type Descriptor struct {
	ID       string          // "sha256:" and 64 hexadecimal digits
	Embedded canonical.Value // the schema, whose hash is ID; null for one at URI
	URI      string          // where the schema is; "" if it is embedded
}

func descriptor(v canonical.Value) (d Descriptor, refused *Error) {
	if v.Kind() != canonical.KindObject {
		return d, badSchema("schema", "is %v, want an object", v.Kind())
	}
	d.ID, _ = v.Get("id").Text()
	if !isHash(d.ID) {
		return d, badSchema("schema.id", "is not sha256: and 64 lower-case hexadecimal digits")
	}
	switch kind, _ := v.Get("kind").Text(); kind {
	case "embedded":
		d.Embedded = v.Get("embedded")
		if d.Embedded.Kind() != canonical.KindObject {
			return d, badSchema("schema.embedded", "is %v, want an object", d.Embedded.Kind())
		}
		if canonical.Hash(d.Embedded) != d.ID {
			return d, badSchema("schema.id", "is not the hash of schema.embedded")
		}
	case "uri":
		var ok bool
		if d.URI, ok = filled(v.Get("uri")); !ok {
			return d, badSchema("schema.uri", "is no text or empty")
		}
	default:
		return d, badSchema("schema.kind", "is neither embedded nor uri")
	}
	return d, nil
}

func isHash(s string) bool {
	digits, ok := strings.CutPrefix(s, "sha256:")
	return ok && len(digits) == 64 && strings.Trim(digits, "0123456789abcdef") == ""
}
