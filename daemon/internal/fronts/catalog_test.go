package fronts

import (
	"regexp"
	"testing"
)

func TestDifferentNamesHaveDifferentIdentifiers(t *testing.T) {
	valid := regexp.MustCompile(`^urn:air:[a-zA-Z0-9.-]+(:[a-zA-Z0-9._-]+)+$`)
	names := make(map[string]string)
	for name, want := range map[string]string{
		"files": "files", "my_files": "my_files", "a/files": "a:files", "a:files": "a_3afiles", "a_3afiles": "a_5f3afiles", "a_5f3afiles": "a_5f5f3afiles",
		"a.files": "a.files", "a b": "a_20b", "a_": "a_", "ü": "_c3_bc", "_": "_", "__5f": "__5f5f", "_5f_": "_5f5f_",
	} {
		got := urn("example.org", "mcp", name)
		if got != "urn:air:example.org:mcp:"+want || !valid.MatchString(got) {
			t.Errorf("%q: %s", name, got)
		}
		if other, taken := names[got]; taken {
			t.Errorf("%q and %q are %s", name, other, got)
		}
		names[got] = name
	}
}

func TestTheDomainOfACatalogIsThatOfTheIdentity(t *testing.T) {
	for identity, want := range map[string]string{
		"spiffe://example.org/edge": "example.org", "https://gw.example.org:8443/x": "gw.example.org", "gw.example.org": "gw.example.org",
		"did:web:example.org%3A3000:edge": "example.org", "did:web:example.org": "example.org", "urn:x:y": "urn-x-y", "spiffe://td_1/x": "td-1",
	} {
		if got := domainOf(identity); got != want {
			t.Errorf("%s: %s, want %s", identity, got, want)
		}
	}
	if got := reversed("gw.example.org"); got != "org.example.gw" {
		t.Error(got)
	}
}
