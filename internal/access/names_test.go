package access

import (
	"strings"
	"testing"
)

func TestNamesMatchAsRulesDo(t *testing.T) {
	names, err := NewNames([]string{"reviewer", "team-*"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"reviewer": true, "team-a": true, "team-": true, "reviewers": false, "": false, "team": false} {
		if names.Match(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
	none, err := NewNames(nil)
	if err != nil || none.Match("reviewer") {
		t.Errorf("no pattern matches, %v", err)
	}
	if _, err := NewNames([]string{strings.Repeat("x", MaxPattern+1)}); err == nil {
		t.Error("a pattern that is too long is taken")
	}
}
