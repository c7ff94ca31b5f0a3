package schema

import "github.com/slimwire/swp/sdl/canonical"

// MaxSteps bounds the work of a validation. A step is one of these: a schema applied to a
// value, a required name, a value or octetsPerStep octets to compare, membersPerStep
// members to look up. In the worst case this takes about 100 ms and 40 MB. A described list
// of 10,000 objects with eight members each stays within the bound; references that
// multiply at each level do not.
const MaxSteps = 100_000

const (
	octetsPerStep  = 16
	membersPerStep = 16
)

// work counts the steps of a validation in the worst case, without evaluating keywords.
type work struct{ left int }

// visit counts the steps to validate v against p. It returns false if the bound is
// exceeded.
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

// comparisons returns how often each of n elements is compared or hashed for uniqueItems:
// few elements are compared pairwise, many are hashed.
func comparisons(n int) int {
	if n > 20 {
		return 1
	}
	return 1 + n/2
}
