package swp_test

import (
	"cmp"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the lines of tests of docs/abuse.md")

// sources returns the files of this repository with one of the endings, by their paths,
// without those that other programs write.
func sources(t *testing.T, endings ...string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && (entry.Name()[0] == '.' || entry.Name() == "testdata" || file == "artifacts" || file == "bin"):
			return fs.SkipDir
		case entry.IsDir() || strings.HasSuffix(file, ".pb.go"):
			return nil
		case !slices.ContainsFunc(endings, func(ending string) bool { return strings.HasSuffix(file, ending) }):
			return nil
		}
		text, err := os.ReadFile(file)
		files[filepath.ToSlash(file)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

const families = "FR|EN|TL|QU|RS|PR|ST|GW|OP"

var (
	abuseRow   = regexp.MustCompile(`(?ms)^### ((?:` + families + `)-\d\d) .*?(?:^#|\z)`)
	abuseTests = regexp.MustCompile("(?m)(?:^TESTS|(?:^- `.*\n)+)")
	function   = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	rowInName  = regexp.MustCompile(`(` + families + `)(\d\d)`)
)

// abuseRows returns the rows of the catalogue of abuse, each with its text.
func abuseRows(t *testing.T, text string) map[string]string {
	t.Helper()
	rows := make(map[string]string)
	for len(text) > 0 {
		m := abuseRow.FindStringSubmatchIndex(text)
		if m == nil {
			break
		}
		end := m[1]
		if end < len(text) {
			end-- // the # of the next heading
		}
		row := text[m[2]:m[3]]
		if _, ok := rows[row]; ok {
			t.Errorf("two rows are called %s", row)
		}
		rows[row] = text[m[0]:end]
		text = text[end:]
	}
	return rows
}

// rowTests returns the tests that are named after rows, by the row and the folder.
func rowTests(t *testing.T) map[string]map[string][]string {
	t.Helper()
	tests := make(map[string]map[string][]string)
	for file, text := range sources(t, "_test.go") {
		for _, m := range function.FindAllStringSubmatch(text, -1) {
			for _, r := range rowInName.FindAllStringSubmatch(m[1], -1) {
				row, dir := r[1]+"-"+r[2], path.Dir(file)
				if tests[row] == nil {
					tests[row] = make(map[string][]string)
				}
				tests[row][dir] = append(tests[row][dir], m[1])
			}
		}
	}
	return tests
}

// testLines are the lines of a row that name its tests.
func testLines(tests map[string][]string) string {
	var b strings.Builder
	for _, dir := range slices.Sorted(maps.Keys(tests)) {
		names := slices.Sorted(slices.Values(tests[dir]))
		fmt.Fprintf(&b, "- `%s`: `%s`\n", dir, strings.Join(names, "`, `"))
	}
	return b.String()
}

// The index of abuse names the tests of each row, and every test that is named after a
// row is in it.
func TestAbuseIndexNamesTheTestsOfEachRow(t *testing.T) {
	const index = "docs/abuse.md"
	octets, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	text := string(octets)
	tests, rows := rowTests(t), abuseRows(t, text)
	for row := range tests {
		if _, ok := rows[row]; !ok {
			t.Errorf("%s has no row %s; tests: %v", index, row, tests[row])
		}
	}
	for row, old := range rows {
		want := testLines(tests[row])
		got := abuseTests.FindString(old)
		switch untested := strings.Contains(old, "\nNo test: "); {
		case untested && want != "":
			t.Errorf("%s: %s says that it has no test, and has\n%s", index, row, want)
		case !untested && want == "":
			t.Errorf("%s: %s has no test", index, row)
		case !untested && got != want && *update:
			text = strings.Replace(text, old, strings.Replace(old, cmp.Or(got, "TESTS"), want, 1), 1)
		case !untested && got != want:
			t.Errorf("%s: the tests of %s are\n%s(go test . -run TestAbuseIndex -update)", index, row, want)
		}
	}
	if len(rows) < 80 {
		t.Errorf("only %d rows", len(rows))
	}
	if *update {
		if err := os.WriteFile(index, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOP07VersionsWithKnownDefectsAreNotBuiltWith holds go.mod to the oldest versions
// without the defects for which docs/abuse.md has the row.
func TestOP07VersionsWithKnownDefectsAreNotBuiltWith(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	required := regexp.MustCompile(`(?m)^(?:require)?\s*(go|\S+\.\S+/\S+) v?(\d+)\.(\d+)\.(\d+)`)
	versions := make(map[string][]int)
	for _, m := range required.FindAllStringSubmatch(string(mod), -1) {
		for _, number := range m[2:] {
			n, _ := strconv.Atoi(number) // digits
			versions[m[1]] = append(versions[m[1]], n)
		}
	}
	for module, oldest := range map[string][]int{
		"go":                                     {1, 26, 6},
		"github.com/quic-go/quic-go":             {0, 59, 1},
		"github.com/modelcontextprotocol/go-sdk": {1, 4, 1},
		"google.golang.org/protobuf":             {1, 33, 0},
		"golang.org/x/crypto":                    {0, 52, 0},
	} {
		if version := versions[module]; len(version) == 0 || slices.Compare(version, oldest) < 0 {
			t.Errorf("%s is %v, want at least %v", module, version, oldest)
		}
	}
}
