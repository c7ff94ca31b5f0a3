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
	var sources []byte
	for _, file := range []string{"example_test.go", "../../test/embed/testdata/module/greeter_test.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, source...)
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) < 6 {
		t.Errorf("%d blocks of code, want 6", len(blocks))
	}
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		if !strings.Contains(string(sources), code) {
			t.Errorf("neither file has such code:\n%s", code)
		}
	}
}
