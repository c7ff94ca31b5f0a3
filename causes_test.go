package swp_test

import (
	"os"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/causes"
)

// The table of the causes of refusals in docs/partners.md is the one of package causes.
func TestTheCausesOfRefusalsAreDocumented(t *testing.T) {
	const file, begin, end = "docs/partners.md", "<!-- causes: go test . -run TestTheCausesOfRefusals -update -->\n", "<!-- end of causes -->"
	octets, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(octets), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", file)
	}
	text := before + begin + "\n" + causes.Table() + "\n" + end + after
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text != string(octets) {
		t.Errorf("%s has another table than package causes (go test . -run TestTheCausesOfRefusals -update)", file)
	}
}
