package part

import (
	"errors"
	"slices"
	"testing"
)

func TestTroublesHaveNoNamesOfPackages(t *testing.T) {
	var troubles Troubles
	troubles.Note("calc", "a request failed", errors.New("mcptools: calc: no answer"))
	var h Health
	troubles.Look("mcp server", &h)
	if want := []string{"mcp server calc: a request failed: calc: no answer"}; !slices.Equal(h.Warnings, want) {
		t.Errorf("%q, want %q", h.Warnings, want)
	}
	if want := []string{"mcp server calc: a request failed"}; !slices.Equal(h.Open(), want) {
		t.Errorf("for everybody: %q, want %q", h.Open(), want)
	}
}
