// Package claimed has the conformance classes that this release claims.
//
// The draft requires an implementation to state them. classes.txt is a copy of the classes
// that make conformance-claims prints; a test before a release plays all vectors and
// compares (conformance/claims).
package claimed

import (
	_ "embed"
	"strings"
)

//go:embed classes.txt
var classes string

// Classes returns the claimed classes, such as "SWP C0", in ascending order. The caller owns
// the slice.
func Classes() []string { return strings.Split(strings.TrimSpace(classes), "\n") }
