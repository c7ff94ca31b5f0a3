package swp_test

import (
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	partnerTest = regexp.MustCompile("(?m)^\\| (\\d+) \\| `([a-z0-9/]+)` `(Test\\w+)` \\| (both|TLS|none) \\|$")
	partnerRow  = regexp.MustCompile(`(?m)^\| [A-Z][^|]*\|(?:[^|\n]*\|){11}$`)
	partnerCell = regexp.MustCompile(`^(?:–|\d+(?:, \d+)*)$`)
)

// The table of the tests of partners has a row for each profile. Each cell says which tests
// it has, and each of them exists.
func TestTableOfPartnersNamesTestsThatExist(t *testing.T) {
	const document = "docs/partner-tests.md"
	text := documents(t)[document]
	have := make(map[string]bool)
	for file, source := range sources(t, "_test.go") {
		for _, m := range function.FindAllStringSubmatch(source, -1) {
			have[path.Dir(file)+" "+m[1]] = true
		}
	}
	listed := make(map[string]bool)
	for i, m := range partnerTest.FindAllStringSubmatch(text, -1) {
		if n := strconv.Itoa(i + 1); m[1] != n {
			t.Errorf("%s: test %s is the %s.", document, m[1], n)
		}
		if listed[m[1]] = true; !have[m[2]+" "+m[3]] {
			t.Errorf("%s: there is no %s in %s", document, m[3], m[2])
		}
	}
	used := make(map[string]bool)
	rows := partnerRow.FindAllString(text, -1)
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), "|")
		for _, cell := range cells[1:] {
			if cell = strings.TrimSpace(cell); !partnerCell.MatchString(cell) {
				t.Errorf("%s: %s: a cell %q", document, cells[0], cell)
			}
			for _, n := range regexp.MustCompile(`\d+`).FindAllString(cell, -1) {
				if used[n] = true; !listed[n] {
					t.Errorf("%s: %s: no test %s is listed", document, cells[0], n)
				}
			}
		}
	}
	if len(rows) != 13 || len(used) != len(listed) {
		t.Errorf("%s: %d rows, and %d of %d tests in them", document, len(rows), len(used), len(listed))
	}
}
