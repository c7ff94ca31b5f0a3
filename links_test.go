package swp_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documents returns the Markdown files of this repository by their paths.
func documents(t *testing.T) map[string]string {
	t.Helper()
	docs := make(map[string]string)
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && (entry.Name()[0] == '.' || entry.Name() == "testdata" || file == "artifacts" || file == "bin"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(file, ".md"):
			return nil
		}
		text, err := os.ReadFile(file)
		docs[filepath.ToSlash(file)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

var (
	block   = regexp.MustCompile("(?ms)^```.*?^```")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noise   = regexp.MustCompile("[^a-z0-9 _-]")
)

// anchors are the fragments that a document has: its headings, as Git forges
// spell them.
func anchors(text string) map[string]bool {
	found := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		found[strings.ReplaceAll(noise.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return found
}

// broken says what is wrong with a link in a document, or "".
func broken(docs map[string]string, from, to string) string {
	if strings.Contains(to, "://") {
		return ""
	}
	file, fragment, _ := strings.Cut(to, "#")
	at := from
	if file != "" {
		at = path.Join(path.Dir(from), file)
		if _, err := os.Stat(filepath.FromSlash(at)); err != nil || strings.HasPrefix(at, "../") {
			return "leads nowhere"
		}
	}
	if fragment != "" && !anchors(block.ReplaceAllString(docs[at], ""))[fragment] {
		return "leads to no heading"
	}
	return ""
}

func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	docs := documents(t)
	links := 0
	for name, text := range docs {
		for _, m := range link.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
			links++
			if why := broken(docs, name, m[1]); why != "" {
				t.Errorf("%s: link %q %s", name, m[1], why)
			}
		}
	}
	if links < 20 {
		t.Errorf("only %d links in %d documents", links, len(docs))
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	docs := documents(t)
	for to, want := range map[string]string{
		"configuration.md": "", "configuration.md#access": "", "#keys": "leads to no heading", "https://example.invalid/x": "", "../LICENSE": "",
		"missing.md": "leads nowhere", "configuration.md#missing": "leads to no heading", "../../outside": "leads nowhere",
	} {
		if got := broken(docs, "docs/operator-guide.md", to); got != want {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
	}
}

// Every document is listed where documents are looked for.
func TestIndexListsEveryDocument(t *testing.T) {
	docs := documents(t)
	index := docs["docs/README.md"]
	for name := range docs {
		if dir, file := path.Split(name); dir == "docs/" && file != "README.md" && !strings.Contains(index, "("+file+")") {
			t.Errorf("docs/README.md does not list %s", file)
		}
	}
}

// Whoever looks for something finds its folder in the README.
func TestReadmeNamesEveryFolder(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range load(t) {
		if top, _, _ := strings.Cut(name, "/"); top != "." && !strings.Contains(string(readme), "`"+top+"/") {
			t.Errorf("README.md says nothing of %s/", top)
		}
	}
}

// maxFolders is how many folders a reader finds at the top, at most.
const maxFolders = 22

func TestFewFoldersAreAtTheTop(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		switch name := entry.Name(); {
		case !entry.IsDir() || name[0] == '.' || name == "artifacts" || name == "bin": // bin and artifacts are built
		default:
			names = append(names, name)
		}
	}
	if len(names) > maxFolders {
		t.Errorf("%d folders at the top, want at most %d: %s", len(names), maxFolders, strings.Join(names, " "))
	}
}
