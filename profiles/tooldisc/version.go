package tooldisc

import (
	"cmp"
	"strings"
)

// CompareVersions orders versions by Semantic Versioning, and other versions similarly:
// numbers between dots compare as numbers of any length, a missing one is 0, a suffix after
// a hyphen makes a version lower, and a suffix after a plus is ignored, as is a leading v.
// It returns -1, 0 or 1.
func CompareVersions(a, b string) int {
	aCore, aPre := splitVersion(a)
	bCore, bPre := splitVersion(b)
	if c := compareParts(aCore, bCore, "0"); c != 0 {
		return c
	}
	switch {
	case aPre == "" || bPre == "":
		return cmp.Compare(len(bPre), len(aPre)) // none is higher than any
	default:
		return compareParts(aPre, bPre, "")
	}
}

func splitVersion(v string) (core, pre string) {
	v, _, _ = strings.Cut(strings.TrimPrefix(v, "v"), "+")
	core, pre, _ = strings.Cut(v, "-")
	return core, pre
}

// compareParts compares the parts between dots; absent replaces a missing part.
func compareParts(a, b, absent string) int {
	for a != "" || b != "" {
		x, y := absent, absent
		if a != "" {
			x, a, _ = strings.Cut(a, ".")
		}
		if b != "" {
			y, b, _ = strings.Cut(b, ".")
		}
		if c := comparePart(x, y); c != 0 {
			return c
		}
	}
	return 0
}

func comparePart(x, y string) int {
	xNumber, yNumber := isNumber(x), isNumber(y)
	switch {
	case x == "" || y == "":
		return cmp.Compare(len(x), len(y))
	case xNumber && yNumber:
		x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y))
	case xNumber:
		return -1
	case yNumber:
		return 1
	}
	return strings.Compare(x, y)
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
