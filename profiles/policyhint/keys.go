package policyhint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The keys that this endpoint knows.
const (
	NoExternalNetwork = "no_external_network" // true or false
	NoPII             = "no_pii"              // true or false
	CostLimit         = "cost_limit"          // see ParseCost
	Region            = "region"              // see ParseRegions
)

// Target is the declaration of something that acts for peers: an MCP server, a worker, a
// back end. Without a declaration a MUST is not satisfied.
type Target struct {
	ExternalNetwork *bool    // whether it uses networks outside its operator's
	PII             *bool    // whether it keeps or passes on personal data
	Regions         []string // regions in which it may act, see ParseRegions
	Cost            *Cost    // maximum of one action
}

// Reasons of violations by an action.
const (
	ReasonUndeclared  = "UNDECLARED"  // the target has no declaration for the key
	ReasonUnsatisfied = "UNSATISFIED" // the declaration does not satisfy the hint
)

// keys are the known keys.
var keys = map[string]struct {
	check func(value string) error
	kept  func(value string, t *Target) (reason string) // empty if the hint is satisfied; value has passed check
}{
	NoExternalNetwork: {checkBool, func(value string, t *Target) string { return without(value, t.ExternalNetwork) }},
	NoPII:             {checkBool, func(value string, t *Target) string { return without(value, t.PII) }},
	CostLimit:         {func(value string) error { _, err := ParseCost(value); return err }, keepsCost},
	Region:            {func(value string) error { _, err := ParseRegions(value); return err }, keepsRegion},
}

var errBool = errors.New("want true or false")

func checkBool(value string) error {
	if value != "true" && value != "false" {
		return errBool
	}
	return nil
}

// without returns the reason why a target violates a boolean hint, or "". A value of false
// requires nothing.
func without(value string, there *bool) string {
	switch {
	case value == "false":
		return ""
	case there == nil:
		return ReasonUndeclared
	case *there:
		return ReasonUnsatisfied
	}
	return ""
}

// maxRegion bounds the name of a region, in octets, and maxRegions their number.
const (
	maxRegion  = 64
	maxRegions = 16
)

// ParseRegions reads names of regions separated by commas, at most 16. A name has up to 64
// lower-case letters, digits and hyphens. A region is part of another region whose name is
// a prefix of its name up to a hyphen: eu-west-1 is part of eu-west and eu.
func ParseRegions(value string) ([]string, error) {
	names := strings.SplitN(value, ",", maxRegions+1)
	if len(names) > maxRegions {
		return nil, fmt.Errorf("more than %d regions", maxRegions)
	}
	for _, name := range names {
		legal := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' }
		if name == "" || len(name) > maxRegion || strings.TrimFunc(name, legal) != "" || name[0] == '-' || name[len(name)-1] == '-' {
			return nil, fmt.Errorf("region %.80q, want lower-case letters, digits and hyphens, %d at most", name, maxRegion)
		}
	}
	return names, nil
}

// keepsRegion requires that each region of the target is part of one of the wanted regions.
func keepsRegion(value string, t *Target) string {
	wanted, _ := ParseRegions(value) // checked before
	if len(t.Regions) == 0 {
		return ReasonUndeclared
	}
	for _, region := range t.Regions {
		if !slices.ContainsFunc(wanted, func(w string) bool { return region == w || strings.HasPrefix(region, w+"-") }) {
			return ReasonUnsatisfied
		}
	}
	return ""
}

// Cost is an amount of a unit.
type Cost struct {
	nano int64 // thousand-millionths
	unit string
}

// maxDigits bounds the digits of an amount before and after the point, maxUnit the octets
// of a unit.
const (
	maxDigits = 9
	maxUnit   = 16
)

var errCost = fmt.Errorf("want a number such as 0.05, %d digits at most before and after the point, and perhaps a blank and a unit of up to %d letters", maxDigits, maxUnit)

// ParseCost reads a decimal number without a sign, with up to 9 digits before and after the
// point, and optionally a blank and a unit of up to 16 letters: 0.05 EUR. Amounts of
// different units cannot be compared.
func ParseCost(text string) (Cost, error) {
	number, unit, hasUnit := strings.Cut(text, " ")
	whole, fraction, hasFraction := strings.Cut(number, ".")
	letter := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
	digits := func(s string) bool {
		return s != "" && len(s) <= maxDigits && strings.Trim(s, "0123456789") == ""
	}
	switch {
	case !digits(whole), hasFraction && !digits(fraction),
		hasUnit && (unit == "" || len(unit) > maxUnit || strings.TrimFunc(unit, letter) != ""):
		return Cost{}, errCost
	}
	var nano int64
	for _, d := range whole + fraction + strings.Repeat("0", maxDigits-len(fraction)) {
		nano = nano*10 + int64(d-'0')
	}
	return Cost{nano, unit}, nil
}

func keepsCost(value string, t *Target) string {
	limit, _ := ParseCost(value) // checked before
	switch {
	case t.Cost == nil || t.Cost.unit != limit.unit:
		return ReasonUndeclared
	case t.Cost.nano > limit.nano:
		return ReasonUnsatisfied
	}
	return ""
}
