package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

var (
	reference = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	loaded    = regexp.MustCompile(`(?:src="|<link[^>]*href="|url\(|@import)([^"]*)`)
	fragment  = regexp.MustCompile(`id="([^"]*)"`)
)

// built builds the site of this repository, in three versions, and returns its files by name.
func built(t *testing.T) map[string]string {
	t.Helper()
	out := t.TempDir()
	for _, version := range []string{"0.9.0", "0.10.0", "dev"} {
		if err := Build(os.DirFS("../.."), out, version); err != nil {
			t.Fatal(err)
		}
	}
	return read(t, out)
}

func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		octets, err := os.ReadFile(file)
		name, _ := filepath.Rel(dir, file)
		found[filepath.ToSlash(name)] = string(octets)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// leads says whether the link of a page leads to a file of the site, and to an id there.
func leads(site map[string]string, from, to string) bool {
	if strings.HasPrefix(to, "https://") {
		return true
	}
	name, id, hasID := strings.Cut(to, "#")
	file := from
	if name != "" {
		file = path.Join(path.Dir(from), name)
	}
	text, ok := site[file]
	if !ok || !hasID {
		return ok
	}
	for _, m := range fragment.FindAllStringSubmatch(text, -1) {
		if m[1] == id {
			return true
		}
	}
	return false
}

func TestEveryLinkOfTheSiteLeadsSomewhere(t *testing.T) {
	site := built(t)
	links := 0
	for name, text := range site {
		if !strings.HasSuffix(name, ".html") {
			continue
		}
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			links++
			if !leads(site, name, m[1]) {
				t.Errorf("%s: %q leads nowhere", name, m[1])
			}
		}
	}
	if links < 1000 {
		t.Errorf("only %d links in %d files", links, len(site))
	}
}

func TestNothingIsLoadedFromElsewhere(t *testing.T) {
	for name, text := range built(t) {
		if !strings.HasSuffix(name, ".html") && !strings.HasSuffix(name, ".css") {
			continue
		}
		for _, m := range loaded.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "//") {
				t.Errorf("%s loads %q", name, m[1])
			}
		}
	}
}

func TestEveryDocumentHasAPageAndIsFound(t *testing.T) {
	site := built(t)
	names, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		out := strings.TrimSuffix(filepath.Base(name), ".md") + ".html"
		if out == "README.html" {
			out = "index.html"
		}
		if !strings.Contains(site["dev/"+out], "<h1 ") {
			t.Errorf("%s: no page with a heading is at %s", name, out)
		}
	}
	list := strings.TrimSuffix(strings.TrimPrefix(site["dev/sections.js"], "searchIn("), ");\n")
	var sections []section
	if err := json.Unmarshal([]byte(list), &sections); err != nil {
		t.Fatal(err)
	}
	for _, s := range sections {
		if !leads(site, "dev/index.html", s.URL) {
			t.Errorf("a search finds %q, which leads nowhere", s.URL)
		}
	}
	if len(sections) < 300 {
		t.Errorf("a search has %d sections only", len(sections))
	}
}

func TestVersionsAreListedTheNewestFirst(t *testing.T) {
	index := built(t)["index.html"]
	var got []string
	for _, m := range regexp.MustCompile(`href="([^"]*)/index.html"`).FindAllStringSubmatch(index, -1) {
		got = append(got, m[1])
	}
	if want := "0.10.0 0.9.0 dev"; strings.Join(got, " ") != want {
		t.Errorf("the versions are %v, want %s", got, want)
	}
}

func TestTheSameDocumentsMakeTheSameOctets(t *testing.T) {
	one, two := built(t), built(t)
	for name, text := range one {
		if two[name] != text {
			t.Errorf("%s differs", name)
		}
	}
}

func TestOlderPagesOfAVersionAreRemoved(t *testing.T) {
	out := t.TempDir()
	documents := fstest.MapFS{"docs/README.md": {Data: []byte("# One\n")}, "docs/two.md": {Data: []byte("# Two\n")}}
	for range 2 {
		if err := Build(documents, out, "1.0.0"); err != nil {
			t.Fatal(err)
		}
		delete(documents, "docs/two.md")
	}
	if _, ok := read(t, out)["1.0.0/two.html"]; ok {
		t.Error("the page of a document that is gone is still there")
	}
}

func TestMistakesInDocumentsAreErrors(t *testing.T) {
	for name, test := range map[string]struct {
		readme, version, want string
	}{
		"no such file":     {"# A\n\n[x](missing.md)\n", "1", "leads nowhere"},
		"no such heading":  {"# A\n\n[x](other.md#missing)\n", "1", "no such heading"},
		"no such image":    {"# A\n\n![x](missing.svg)\n", "1", "leads nowhere"},
		"image of code":    {"# A\n\n![x](../cmd/x.go)\n", "1", "leads nowhere"},
		"image elsewhere":  {"# A\n\n![x](https://example.org/x.svg)\n", "1", "leads nowhere"},
		"html":             {"# A\n\n<script>x</script>\n", "1", "HTML is not shown"},
		"html in a line":   {"# A\n\na <b>word</b>\n", "1", "HTML is not shown"},
		"a version":        {"# A\n", "../x", "want letters"},
		"no version":       {"# A\n", "", "want letters"},
		"nothing is wrong": {"# A\n\n<!-- x -->\n\n[x](other.md#b-c), [y](../cmd/x.go), [other.md](other.md) and [z](https://example.org)\n", "1", ""},
	} {
		out := t.TempDir()
		err := Build(fstest.MapFS{
			"docs/README.md": {Data: []byte(test.readme)}, "docs/other.md": {Data: []byte("# Other & more\n\n## B, `c`\n")}, "cmd/x.go": {Data: []byte("package x\n")},
		}, out, test.version)
		switch files := read(t, out); {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.want == "":
			if page := files["1/index.html"]; !strings.Contains(page, `<a href="other.html#b-c">x</a>, y, <a href="other.html">Other &amp; more</a> and <a href="https://example.org">z</a>`) {
				t.Errorf("%s: the page is\n%s", name, page)
			}
		case err == nil || !strings.Contains(err.Error(), test.want):
			t.Errorf("%s: %v, want an error with %q", name, err, test.want)
		case len(files) > 0:
			t.Errorf("%s: %d files are written", name, len(files))
		}
	}
}

func TestASearchFindsSectionsWithAllWords(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip(err)
	}
	script, err := os.ReadFile("search.js")
	if err != nil {
		t.Fatal(err)
	}
	const sections = `[{url:"a",page:"Tasks",head:"Limits",text:"A task has a deadline."},{url:"b",page:"Relay",head:"Tasks",text:"Deliveries and limits."},{url:"c",page:"Relay",head:"x",text:"nothing"}]`
	for query, want := range map[string]string{"limits task": "a b", "DEADLINE": "a", "tasks deliveries": "b", "absent": "", " ": "", "limits absent": ""} {
		expression := string(script) + ";console.log(find(" + sections + "," + `process.argv[1]` + ").map((s) => s.url).join(' '))"
		out, err := exec.CommandContext(t.Context(), node, "-e", expression, query).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%q finds %q, want %q: %v", query, got, want, err)
		}
	}
}
