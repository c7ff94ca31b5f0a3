package swp_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/effort"
)

// The most markers that scripts/plain-english.sh may count: in the documents, and in the
// comments of Go files without tests. They become lower when sentences are rewritten.
const (
	maxMarkersInDocuments = 50
	maxMarkersInComments  = 240
)

var (
	markerList  = regexp.MustCompile(`(?s)\nmarkers='(.*?)'\n`)
	commentLine = regexp.MustCompile(`(?m)^[ \t]*// *(.*)$`)
	generated   = regexp.MustCompile(`(?:_test|\.gen|\.pb)\.go$`)
)

// markers returns the expressions of the script as one.
func markers(t *testing.T) *regexp.Regexp {
	t.Helper()
	script, err := os.ReadFile("scripts/plain-english.sh")
	if err != nil {
		t.Fatal(err)
	}
	list := markerList.FindSubmatch(script)
	if list == nil {
		t.Fatal("scripts/plain-english.sh has no list of markers")
	}
	return regexp.MustCompile(`(?m)` + strings.ReplaceAll(string(list[1]), "\n", "|"))
}

func TestMarkersOfUnclearEnglishDoNotBecomeMore(t *testing.T) {
	effort.Unwatched(t)
	marker := markers(t)
	inDocuments, inComments := 0, 0
	for name, text := range documents(t) {
		if strings.Count(name, "/") == 0 || strings.HasPrefix(name, "docs/") {
			inDocuments += len(marker.FindAllString(block.ReplaceAllString(text, ""), -1))
		}
	}
	for name, text := range sources(t, ".go") {
		if generated.MatchString(name) {
			continue
		}
		for _, comment := range commentLine.FindAllStringSubmatch(text, -1) {
			inComments += len(marker.FindAllString(comment[1], -1))
		}
	}
	if inDocuments > maxMarkersInDocuments {
		t.Errorf("%d markers in documents, want at most %d: see scripts/plain-english.sh -l FILE", inDocuments, maxMarkersInDocuments)
	}
	if inComments > maxMarkersInComments {
		t.Errorf("%d markers in comments, want at most %d: see scripts/plain-english.sh --go", inComments, maxMarkersInComments)
	}
	t.Logf("%d markers in documents, %d in comments", inDocuments, inComments)
}

func TestMarkersAreFound(t *testing.T) {
	marker := markers(t)
	for text, want := range map[string]int{
		"The server sends the answer of the child; there is no other.": 0,
		"A session that is no longer open.":                            0,
		"It goes to whoever asks, and that of the peer stays.":         2,
		"Names that may have changed are read anew.":                   2,
	} {
		if got := len(marker.FindAllString(text, -1)); got != want {
			t.Errorf("%q has %d markers, want %d", text, got, want)
		}
	}
}
