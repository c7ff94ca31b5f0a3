package part

import (
	"slices"
	"testing"
)

func TestTroublesHaveNoNamesOfPackages(t *testing.T) {
	var troubles Troubles
	troubles.Note("calc", "mcptools: calc: no answer")
	if got, want := troubles.Warnings("mcp server"), []string{"mcp server calc: calc: no answer"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
