// Package fairtest keeps the table of docs/fair-shares.md: tests measure what an identity gets
// of a pool alone, and beside an identity that floods it.
package fairtest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("fair", false, "write the row of this pool into docs/fair-shares.md")

// least is the minimum that an identity gets beside another, in percent of its use alone.
const least = 40

// Row checks what an identity got of a pool, and its row in the table. unit says what was
// counted.
func Row(t *testing.T, pool, unit string, alone, beside int) {
	t.Helper()
	if alone == 0 || beside*100 < least*alone {
		t.Errorf("%s: %d %s beside a flood and %d alone, want at least %d %%", pool, beside, unit, alone, least)
		return
	}
	row := fmt.Sprintf("| %s | %s | %d | %d | %d %% |", pool, unit, alone, beside, 100*beside/alone)
	file := table(t)
	octets, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(octets), "\n")
	for i, line := range lines {
		switch {
		case !strings.HasPrefix(line, "| "+pool+" |"):
			continue
		case line != row && !*update:
			t.Errorf("%s has\n%s, want\n%s (go test with -fair)", file, line, row)
		}
		lines[i] = row
		if *update {
			if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	t.Errorf("%s has no row of %s", file, pool)
}

// Identities of Places.
const (
	Alice   = "spiffe://test.invalid/alice"
	Mallory = "spiffe://test.invalid/mallory"
)

// Places measures a pool of places and checks its row in the table. Alice and Mallory ask for
// more places than there are, Mallory first and three times as often; in each round the one with
// more places gives one back. open makes a new pool: take asks for a place, and give returns
// one.
func Places(t *testing.T, pool, unit string, open func(t *testing.T) (take func(who string) bool, give func(who string))) {
	t.Helper()
	measure := func(t *testing.T, who ...string) int {
		take, give := open(t)
		has := map[string]int{}
		for round := 0; ; round++ {
			for _, one := range who {
				for range 4 {
					if take(one) {
						has[one]++
					}
				}
			}
			if round == 40 {
				break
			}
			most := Alice
			if has[Mallory] > has[Alice] {
				most = Mallory
			}
			give(most)
			has[most]--
		}
		for range has[Mallory] {
			give(Mallory)
		}
		alice := has[Alice]
		for range alice {
			give(Alice)
		}
		return alice
	}
	var alone, beside int
	t.Run("alone", func(t *testing.T) { alone = measure(t, Alice, Alice, Alice) })
	t.Run("flooded", func(t *testing.T) { beside = measure(t, Mallory, Mallory, Mallory, Alice) })
	Row(t, pool, unit, alone, beside)
}

// table finds the document from the folder of a package.
func table(t *testing.T) string {
	for dir := "."; ; dir = filepath.Join(dir, "..") {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "docs", "fair-shares.md")
		}
		if len(dir) > 64 {
			t.Fatal("not in the repository")
		}
	}
}
