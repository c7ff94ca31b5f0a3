package e2e

import (
	"cmp"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// expected are the differences that testdata/gate.txt gives a reason for.
type expected []*difference

// difference is tests with another outcome through swpd than directly.
type difference struct {
	test, directly *regexp.Regexp
	here           string // with $1 for the first group of directly
	reason         string

	at   []string       // patterns of the places with the difference
	used map[string]int // places of each pattern with the difference
	line int
}

// readExpected reads testdata/gate.txt, which says how.
func readExpected(t *testing.T) expected {
	t.Helper()
	octets, err := os.ReadFile("testdata/gate.txt")
	if err != nil {
		t.Fatal(err)
	}
	whole := func(pattern string) *regexp.Regexp {
		e, err := regexp.Compile("^(?:" + pattern + ")$")
		if err != nil {
			t.Fatalf("gate.txt: %v", err)
		}
		return e
	}
	var list expected
	number := 0
	for line := range strings.Lines(string(octets)) {
		number++
		line = strings.TrimRight(line, "\n")
		text, inside := strings.CutPrefix(line, "  ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case !inside:
			list = append(list, &difference{test: whole(line), line: number, used: make(map[string]int)})
			continue
		case len(list) == 0:
			t.Fatalf("gate.txt:%d: %q stands before the first test", number, line)
		}
		d := list[len(list)-1]
		switch name, value, _ := strings.Cut(text, ": "); name {
		case "at":
			d.at = strings.Fields(value)
		case "directly":
			d.directly = whole(value)
		case "here":
			d.here = value
		case "reason":
			d.reason = value
		default:
			t.Fatalf("gate.txt:%d: %q, want at, directly, here or reason", number, name)
		}
	}
	for _, d := range list {
		if d.reason == "" || d.directly == nil || d.here == "" || len(d.at) == 0 {
			t.Errorf("gate.txt:%d: %s: at, directly, here and reason are required", d.line, d.test)
		}
	}
	return list
}

// covers returns the pattern of the difference that a place matches, empty if none does.
func (d *difference) covers(place string) string {
	for _, pattern := range d.at {
		if ok, err := path.Match(pattern, place); ok && err == nil {
			return pattern
		}
	}
	return ""
}

// compare compares the outcomes of tests at a place with those that they have directly. Each
// difference needs a reason, and each reason its difference.
func (e expected) compare(t *testing.T, place string, directly, here map[string]string) {
	t.Helper()
	tests := maps.Clone(directly)
	maps.Copy(tests, here)
	for _, test := range slices.Sorted(maps.Keys(tests)) {
		was, is := cmp.Or(directly[test], "not run"), cmp.Or(here[test], "not run")
		known := was == is
		for _, d := range e {
			pattern := d.covers(place)
			at := d.directly.FindStringSubmatchIndex(was)
			if pattern == "" || at == nil || !d.test.MatchString(test) {
				continue
			}
			if want := string(d.directly.ExpandString(nil, d.here, was, at)); want == is {
				known = true
				d.used[pattern]++
			} else {
				t.Errorf("%s: %s: gate.txt:%d holds no longer\n  directly: %s\n  here: %s\n  in gate.txt: %s", place, test, d.line, was, is, want)
			}
		}
		if !known {
			t.Errorf("%s\n  at: %s\n  directly: %s\n  here: %s\n  reason: (none in gate.txt)", test, place, was, is)
		}
	}
}

// unused reports the reasons without a difference, of those for places that begin with one of some
// texts.
func (e expected) unused(t *testing.T, places ...string) {
	t.Helper()
	for _, d := range e {
		for _, pattern := range d.at {
			at := slices.ContainsFunc(places, func(place string) bool { return strings.HasPrefix(pattern, place) })
			if at && d.used[pattern] == 0 {
				t.Errorf("gate.txt:%d: %s: no difference at %s", d.line, d.test, pattern)
			}
		}
	}
}
