package profiles_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
)

func TestModesAreReadInAnyCase(t *testing.T) {
	for text, want := range map[string]profiles.Mode{"MUST": profiles.Must, " should\t": profiles.Should, "mAy": profiles.May} {
		if got, ok := profiles.ParseMode(text); !ok || got != want {
			t.Errorf("ParseMode(%q) = %v, %v", text, got, ok)
		}
		if again, ok := profiles.ParseMode(want.String()); !ok || again != want {
			t.Errorf("%v is not read back", want)
		}
	}
	for _, text := range []string{"", " ", "MUST NOT", "M", "MUSTS"} {
		if got, ok := profiles.ParseMode(text); ok {
			t.Errorf("ParseMode(%q) = %v", text, got)
		}
	}
}

func TestHintsOfAreThoseForAName(t *testing.T) {
	if got := profiles.HintsOf(t.Context(), "x"); got != nil {
		t.Errorf("%v, want none", got)
	}
	all := []profiles.Hint{
		{Key: "a", Value: "1", Mode: profiles.May, Scope: profiles.ScopeConnection},
		{Key: "b", Value: "2", Mode: profiles.Must, Scope: profiles.ScopeTarget + "x"},
		{Key: "c", Value: "3", Mode: profiles.Must, Scope: profiles.ScopeTarget + "y"},
		{Key: "d", Value: "4, of", Mode: profiles.Should, Scope: "rpc:00"},
	}
	ctx := profiles.WithHints(t.Context(), all)
	if got, want := profiles.HintsOf(ctx, "x"), []profiles.Hint{all[1], all[3], all[0]}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := profiles.FormatHints(profiles.HintsOf(ctx, "z")), "d=4%2C+of;SHOULD, a=1;MAY"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestFormattedHintsAreBounded(t *testing.T) {
	var many []profiles.Hint
	for range 300 {
		many = append(many, profiles.Hint{Key: "k", Value: strings.Repeat("\n", 10), Mode: profiles.Must})
	}
	got := profiles.FormatHints(many)
	if len(got) > 4096 || len(got) < 4000 || !strings.HasSuffix(got, ";MUST") || strings.ContainsAny(got, "\r\n") {
		t.Errorf("%d octets: %q", len(got), got)
	}
}

func TestAViolationCostsThePeerNothing(t *testing.T) {
	v := profiles.Violation{Key: "region", Scope: "rpc:01", Reason: "UNSATISFIED"}
	if err := v.Refusal(); err.Code != profiles.SecurityPolicy || !err.Domain || err.Text != "stopped by a policy hint: MUST region for rpc:01: UNSATISFIED" {
		t.Errorf("%+v", err)
	}
}
