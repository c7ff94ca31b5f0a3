package schema

import "github.com/slimwire/swp/sdl/canonical"

// MaxSteps bounds the work of a validation. A step is a schema that is applied to
// a value, a name that is required, a value or octetsPerStep octets that are
// compared, or membersPerStep members that are looked up. All of them together
// take some 100 ms and 40 MB at most, where everything fails. A list of 10 000
// objects with eight members each that the schema describes stays within;
// references that multiply at each level do not.
const MaxSteps = 100_000

const (
	octetsPerStep  = 16
	membersPerStep = 16
)

// work counts the steps of a validation as if everything was looked at: none of
// the keywords is evaluated.
type work struct{ left int }

// visit counts what it takes to hold v against p. It returns false once too much
// was counted.
func (w *work) visit(p *part, v canonical.Value) bool {
	w.left -= p.cost + v.Len()/membersPerStep
	switch {
	case p.unique && v.Kind() == canonical.KindArray:
		w.left -= v.Len() + v.JSONSize()/octetsPerStep*comparisons(v.Len())
	case v.Len() == 0:
		w.left -= v.JSONSize() / 256 // characters are counted
	}
	if w.left < 0 {
		return false
	}
	for _, inner := range p.here {
		if !w.visit(inner, v) {
			return false
		}
	}
	if items := p.single["items"]; items != nil && v.Kind() == canonical.KindArray {
		for element := range v.All() {
			if !w.visit(items, element) {
				return false
			}
		}
	}
	properties, rest := p.named["properties"], p.single["additionalProperties"]
	for name, m := range v.Members() {
		inner, ok := properties[name]
		if !ok {
			inner = rest
		}
		if inner != nil && !w.visit(inner, m) {
			return false
		}
	}
	return true
}

// comparisons returns how often each of n elements is compared or hashed to find
// out whether they are unique: few are compared with each other, many are hashed.
func comparisons(n int) int {
	if n > 20 {
		return 1
	}
	return 1 + n/2
}
