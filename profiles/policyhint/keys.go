package policyhint

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
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
	item  string // of a declaration, with which the key is compared
	check func(value string) error
	kept  func(value string, t *Target) (reason string) // empty if the hint is satisfied; value has passed check
}{
	NoExternalNetwork: {itemExternalNetwork, checkBool, func(value string, t *Target) string { return without(value, t.ExternalNetwork) }},
	NoPII:             {itemPII, checkBool, func(value string, t *Target) string { return without(value, t.PII) }},
	CostLimit:         {itemCost, func(value string) error { _, err := ParseCost(value); return err }, keepsCost},
	Region:            {itemRegion, func(value string) error { _, err := ParseRegions(value); return err }, keepsRegion},
}

// Keys returns the known keys in order.
func Keys() []string { return slices.Sorted(maps.Keys(keys)) }

// Item returns the item of a declaration with which a known key is compared, such as pii for
// no_pii.
func Item(key string) string { return keys[key].item }

// KeyFor returns the known key that is compared with an item of a declaration, empty if there
// is none.
func KeyFor(item string) string {
	for key, k := range keys {
		if k.item == item {
			return key
		}
	}
	return ""
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

// String returns the amount in the form of ParseCost.
func (c Cost) String() string {
	text := strconv.FormatInt(c.nano/1e9, 10)
	if fraction := strings.TrimRight(fmt.Sprintf("%09d", c.nano%1e9), "0"); fraction != "" {
		text += "." + fraction
	}
	if c.unit != "" {
		text += " " + c.unit
	}
	return text
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

// Names of the items of a declaration in text.
const (
	itemExternalNetwork = "external_network"
	itemPII             = "pii"
	itemRegion          = "region"
	itemCost            = "cost"
)

// MaxDeclaration bounds the text of a declaration, in octets.
const MaxDeclaration = 2048

// ParseDeclaration reads a declaration that an agent makes of itself: items name=value with
// ";" between them. The names are external_network and pii, with true or false, region as
// in ParseRegions, and cost as in ParseCost.
//
//	external_network=false;region=eu-west-1,eu-west-2;cost=0.02 EUR
//
// An empty text declares nothing.
func ParseDeclaration(text string) (*Target, error) {
	t := new(Target)
	if len(text) > MaxDeclaration {
		return nil, fmt.Errorf("policyhint: declaration of %d octets, want at most %d", len(text), MaxDeclaration)
	}
	seen := make(map[string]bool)
	for item := range strings.SplitSeq(text, ";") {
		if text == "" {
			break
		}
		name, value, _ := strings.Cut(item, "=")
		err := errTwice
		if !seen[name] {
			err = t.declare(name, value)
		}
		if err != nil {
			return nil, fmt.Errorf("policyhint: declaration %.80q: %w", item, err)
		}
		seen[name] = true
	}
	return t, nil
}

// declaredTarget is a Target that does everything.
type declaredTarget struct{ t *Target }

// Target implements Targets.
func (d declaredTarget) Target(_, _ string) (*Target, bool) { return d.t, true }

// Declared returns Targets that do everything as a declaration says, see ParseDeclaration.
func Declared(text string) (Targets, error) {
	t, err := ParseDeclaration(text)
	if err != nil {
		return nil, err
	}
	return declaredTarget{t}, nil
}

// CheckDeclaration returns the fault of a text that ParseDeclaration refuses.
func CheckDeclaration(text string) error {
	_, err := ParseDeclaration(text)
	return err
}

var (
	errTwice = errors.New("it is there twice")
	errItem  = errors.New("want external_network, pii, region or cost")
)

// declare sets one item of a declaration.
func (t *Target) declare(name, value string) (err error) {
	switch name {
	case itemExternalNetwork:
		t.ExternalNetwork, err = new(value == "true"), checkBool(value)
	case itemPII:
		t.PII, err = new(value == "true"), checkBool(value)
	case itemRegion:
		t.Regions, err = ParseRegions(value)
	case itemCost:
		t.Cost = new(Cost)
		*t.Cost, err = ParseCost(value)
	default:
		err = errItem
		if item := Item(name); item != "" {
			err = fmt.Errorf("a hint asks for %s; a declaration has %s", name, item)
		}
	}
	return err
}

// String returns the declaration in the form of ParseDeclaration.
func (t *Target) String() string {
	var items []string
	add := func(name, value string) { items = append(items, name+"="+value) }
	if t.ExternalNetwork != nil {
		add(itemExternalNetwork, strconv.FormatBool(*t.ExternalNetwork))
	}
	if t.PII != nil {
		add(itemPII, strconv.FormatBool(*t.PII))
	}
	if len(t.Regions) > 0 {
		add(itemRegion, strings.Join(t.Regions, ","))
	}
	if t.Cost != nil {
		add(itemCost, t.Cost.String())
	}
	return strings.Join(items, ";")
}
