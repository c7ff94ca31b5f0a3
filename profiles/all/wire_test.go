package all_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/profiles/slip"
)

var wireRow = regexp.MustCompile(`(?m)^\| (\d+) \| ([\w -]+) \| ([IATC](?:, [IATC])*) \|$`)

// letters returns the roles of a type as wire.md has them.
func letters(r profiles.Role) string {
	var list []string
	for i, letter := range []string{"I", "A", "T", "C"} {
		if r&(1<<i) != 0 {
			list = append(list, letter)
		}
	}
	return strings.Join(list, ", ")
}

// Every message of the profiles is in wire.md with its roles, and every extension type.
func TestWireListsMessagesAndExtensions(t *testing.T) {
	octets, err := os.ReadFile("../../docs/wire.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(octets)
	said := make(map[string]string)
	for _, m := range wireRow.FindAllStringSubmatch(text, -1) {
		said[m[2]] = m[3]
	}
	rows, extensions := 0, map[string]bool{fmt.Sprintf("| any | %d |", profiles.ExtEndpoint): true}
	for _, p := range all.Tables() {
		for _, n := range p.Extensions {
			row := fmt.Sprintf("| %d | %d |", p.ID, n)
			if n >= profiles.ExtHops {
				row = fmt.Sprintf("| any | %d |", n)
			}
			extensions[row] = true
		}
		if p.ID == sdl.ProfileID || p.ID == slip.ProfileID {
			continue // they have a document of their own
		}
		for _, typ := range p.Types {
			rows++
			if want := letters(typ.Role); said[typ.Name] != want {
				t.Errorf("docs/wire.md: %s has the roles %q, want %q", typ.Name, said[typ.Name], want)
			}
		}
	}
	if rows != len(said) || rows < 50 {
		t.Errorf("docs/wire.md has %d messages, the profiles have %d", len(said), rows)
	}
	for row := range extensions {
		if !strings.Contains(text, "\n"+row) {
			t.Errorf("docs/wire.md has no row %s", row)
		}
	}
	if len(extensions) < 19 {
		t.Errorf("only %d extension types", len(extensions))
	}
}
