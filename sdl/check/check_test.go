package check

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/vectors/datatest"
)

// files returns the files of cases in a directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	expectations, err := filepath.Glob(filepath.Join(dir, "*.expect.json"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return append(expectations, rows...)
}

// play plays every case of a directory and returns how many there were of each file,
// expectations together.
func play(t *testing.T, dir string) map[string]int {
	t.Helper()
	count := make(map[string]int)
	for _, file := range files(t, dir) {
		cases, err := Load(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		if strings.HasSuffix(name, ".expect.json") {
			name = "expect"
		}
		count[name] += len(cases)
		for i := range cases {
			r := cases[i].Play(t.Context())
			if !r.Pass {
				t.Errorf("%s: %s", r.Case, strings.Join(r.Diff, "\n\t"))
			}
			if len(r.Results) == 0 {
				t.Errorf("%s: nothing was delivered", r.Case)
			}
		}
	}
	return count
}

func TestExamplesPass(t *testing.T) {
	want := map[string]int{"expect": 9, "canonical.jsonl": 8, "keywrap.jsonl": 1, "flows.jsonl": 4, "divergence.jsonl": 3}
	wantCount(t, play(t, "testdata"), want)
}

func TestDataOfTheSpecificationPasses(t *testing.T) {
	want := map[string]int{"expect": 56, "canonical-vectors.jsonl": 79, "keywrap-vectors.jsonl": 6, "flows.jsonl": 23, "divergence.jsonl": 32}
	wantCount(t, play(t, datatest.Path(t, "sdl")), want)
}

func wantCount(t *testing.T, got, want map[string]int) {
	t.Helper()
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %d cases, want %d", name, got[name], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("cases of %v, want %v", got, want)
	}
}

func TestCasesCanBePlayedAgain(t *testing.T) {
	cases, err := Load("testdata/05-signed-twice.expect.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := cases[0].Play(t.Context()); !r.Pass || len(r.Results) != 2 {
			t.Errorf("%d results, %v, want 2 and no difference: nonces of another play count", len(r.Results), r.Diff)
		}
	}
}

func TestUnrecognisedFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"empty.jsonl": "",
		"blank.jsonl": " \n\n",
		"text.json":   "12 crates",
		"other.json":  `{"keys":{}}`,
		"half.jsonl":  `{"id":"a","input":"1","canonical_json":"1"`,
		"mixed.jsonl": `{"id":"a","input":"x","error":"not JSON"}` + "\n" + `{"id":"b"}`,
		"twice.json":  `{"id":"a","input":"x","error":"not JSON","id":"b"}`,
		"array.json":  `[]`,
		"nobody.json": `{"case":"x","body_file":"none.json","now":"2026-01-01T00:00:00Z","server":{},"expected":[]}`,
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		want := name
		if name == "nobody.json" {
			want = "none.json"
		}
		if cases, err := Load(file, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d cases, error %v, want one that names the file", name, len(cases), err)
		}
	}
	if _, err := Load(dir, nil); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("directory: %v, want an error that names it", err)
	}
	if _, err := Load(filepath.Join(dir, "absent.jsonl"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
}

func TestKeyThatIsNotThereIsADifference(t *testing.T) {
	row := []byte(`{"id":"f","now":"2026-01-01T00:00:00Z","config":{"session_signing_key":"nobody"},"steps":[]}`)
	for _, keys := range []*Keys{nil, {}} {
		c, err := load(row, "", keys)
		if err != nil {
			t.Fatal(err)
		}
		r := c.Play(context.Background())
		if r.Pass || !slices.ContainsFunc(r.Diff, func(d string) bool { return strings.Contains(d, `"nobody"`) }) {
			t.Errorf("%v, want a difference that names the key", r.Diff)
		}
	}
}

func TestExpectationThatSaysTooLittleIsADifference(t *testing.T) {
	body := filepath.Join(t.TempDir(), "body.json")
	if err := os.WriteFile(body, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		`{"case":"c","body_file":"body.json","now":"2026-01-01T00:00:00Z","server":{},"expected":[]}`,
		`{"case":"c","body_file":"body.json","now":"2026-01-01T00:00:00Z","server":{"deliver":0},"expected":[]}`,
		`{"case":"c","body_file":"body.json","now":"2026-01-01T00:00:00Z","server":{},"expected":[{}]}`,
		`{"case":"c","body_file":"body.json","now":"2026-01-01T00:00:00Z","server":{},"expected":[{"outcome":"error"}]}`,
		`{"case":"c","body_file":"body.json","now":"2026-01-01T00:00:00Z","server":{},"expected":[{"outcome":"error","code":"BAD_REQUEST"}]}`,
		`{"case":"c","body_file":"body.json","now":"2026-01-01T00:00:00Z","server":{},"expected":["error"]}`,
		`{"case":"c","body_file":"body.json","now":"2026-01-01T00:00:00Z","expected":[{"outcome":"error","code":"BAD_REQUEST","retryable":false}]}`,
		`{"case":"c","body_file":"body.json","server":{},"expected":[{"outcome":"error","code":"BAD_REQUEST","retryable":false}]}`,
		`{"id":"c","input":"1","canonical_json":"1"}`,
		`{"id":"c","now":"2026-01-01T00:00:00Z","config":{},"steps":[]}`,
		`{"id":"c","now":"2026-01-01T00:00:00Z","config":{},"steps":[{}]}`,
		`{"id":"c","now":"2026-01-01T00:00:00Z","server":{},"bodies":[],"recommended":[]}`,
		`{"id":"c","now":"2026-01-01T00:00:00Z","server":{},"bodies":["{}","{}"],"recommended":[{"outcome":"error","code":"BAD_REQUEST","retryable":false}]}`,
	} {
		c, err := load([]byte(row), filepath.Dir(body), nil)
		if err != nil {
			t.Fatalf("%s: %v", row, err)
		}
		if r := c.Play(t.Context()); r.Pass {
			t.Errorf("%s: passes", row)
		}
	}
	whole := `{"case":"c","body_file":"body.json","now":"2026-01-01T00:00:00Z","server":{},"expected":[{"outcome":"error","code":"BAD_REQUEST","retryable":false}]}`
	c, err := load([]byte(whole), filepath.Dir(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Play(t.Context()); !r.Pass {
		t.Errorf("%s: %v", whole, r.Diff)
	}
}
