package sdlserver

import (
	"slices"
	"testing"

	"github.com/slimwire/swp/daemon/config"
)

func TestTheNarrowestRouteCounts(t *testing.T) {
	list, err := newRoutes(map[string]string{"**": "all", "did:**": "deep", "did:*": "flat", "did:web:a*": "begins", "did:web:ab": "one", "*:ab": "ends"})
	if err != nil {
		t.Fatal(err)
	}
	for agent, want := range map[string]string{
		"did:web:ab": "one", "did:web:abc": "begins", "did:web:b": "flat", "did:web/b": "deep", "x:ab": "ends", "x": "all", "did:x:ab": "flat",
	} {
		if got := list.find(agent); got != want {
			t.Errorf("%s goes to %q, want %q", agent, got, want)
		}
	}
	if got := (routes{}).find("x"); got != "" {
		t.Errorf("without routes: %q", got)
	}
	if _, err := newRoutes(map[string]string{"": "a"}); err == nil {
		t.Error("an empty pattern was accepted")
	}
}

func TestARouteThatIsNeverUsedIsNamed(t *testing.T) {
	for _, test := range []struct {
		own   string
		paths []string
		want  int
	}{
		{"", []string{"a", "*", "**"}, 0},
		{"a", []string{"a", "b"}, 1},
		{"a", []string{"a*"}, 0},
		{"", []string{"a**", "a***"}, 1},
		{"", []string{"a*b*", "a*"}, 0},
		{"", []string{"**", "***", "****"}, 2},
	} {
		c := config.SDL{AgentID: test.own, Routes: make(map[string]string)}
		for _, path := range test.paths {
			c.Routes[path] = "p"
		}
		if got := Unreached(&c); len(got) != test.want {
			t.Errorf("%v: %q, want %d", test.paths, got, test.want)
		}
	}
}

func TestAPatternCoversAnother(t *testing.T) {
	for _, p := range []struct {
		p, q string
		want bool
	}{
		{"**", "anything/*", true}, {"*", "a/b", false}, {"*", "**", false}, {"a*c", "abc", true}, {"a*c", "ab", false},
		{"a*", "a*b*", true}, {"a*b*", "a*", false}, {"**/x", "*/x", true}, {"*", "", true}, {"", "a", false},
	} {
		if got := covers(p.p, p.q); got != p.want {
			t.Errorf("%q covers %q: %v", p.p, p.q, got)
		}
	}
	if !slices.Equal(Unreached(&config.SDL{}), nil) {
		t.Error("no routes, and a warning")
	}
}
