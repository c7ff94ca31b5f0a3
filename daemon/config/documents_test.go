package config

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// otherYAML are the beginnings of blocks in documents that are no configuration of swpd.
var otherYAML = []string{"scrape_configs:", "members:"}

// A reader copies the examples, so each has keys and kinds of values that swpd accepts. The
// files that they name are not there.
func TestExamplesInDocumentsAreConfigurations(t *testing.T) {
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	ofPartner := regexp.MustCompile(`^# partners\.d/(\w+)\.yaml\n`)
	examples, others := 0, 0
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			example := m[1]
			if first, _, _ := strings.Cut(example, "\n"); slices.Contains(otherYAML, strings.TrimSpace(first)) {
				others++
				continue
			}
			if name := ofPartner.FindStringSubmatch(example); name != nil {
				example = "partners:\n  " + name[1] + ":\n    " + strings.ReplaceAll(strings.TrimSpace(example), "\n", "\n    ")
			}
			examples++
			_, d, err := decodeKeys(filepath.Base(document), []byte(example), nil, nil)
			if err != nil {
				t.Errorf("%v, in\n%s", err, example)
			} else if len(d.problems.list) > 0 {
				t.Errorf("%s: %v, in\n%s", document, d.problems.list, example)
			}
		}
	}
	if examples < 20 || others != len(otherYAML) {
		t.Errorf("%d examples and %d other blocks, want at least 20 and %d", examples, others, len(otherYAML))
	}
}
