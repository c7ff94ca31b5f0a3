package endpoint_test

import (
	"os"
	"strings"
	"testing"
)

// The guide shows code that is compiled and run here.
func TestTheGuideShowsTheExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/embedding.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) < 5 {
		t.Errorf("%d blocks of code, want 5", len(blocks))
	}
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		if !strings.Contains(string(source), code) {
			t.Errorf("the example has no such code:\n%s", code)
		}
	}
}
