package schema

import (
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// first returns the place of the first violation, as a JSON Pointer, and the violated
// keyword. Places are ordered by name.
func first(e *jsonschema.ValidationError) (where, keyword string) {
	if len(e.Causes) == 0 {
		keyword = "false"
		if path := e.ErrorKind.KeywordPath(); len(path) > 0 {
			keyword = path[0]
		}
		for _, token := range e.InstanceLocation {
			where += "/" + toToken.Replace(token)
		}
		return where, keyword
	}
	for i, cause := range e.Causes {
		w, k := first(cause)
		if i == 0 || w < where || w == where && k < keyword {
			where, keyword = w, k
		}
	}
	return where, keyword
}

// toToken writes a name as a token of a JSON Pointer (RFC 6901).
var toToken = strings.NewReplacer("~", "~0", "/", "~1")
