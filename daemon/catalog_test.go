package daemon

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
)

// catalogEntry is an entry as a client reads it.
type catalogEntry struct {
	Identifier, DisplayName, Type, URL string
	Data                               struct {
		Schema                     string `json:"$schema"`
		Name, Version, Description string
		Remotes                    []struct{ Type, URL string }
	}
}

// asked sends a request to a front as a caller, with header lines "name: value".
func asked(t *testing.T, method, url, token string, headers ...string) (int, http.Header, string) {
	t.Helper()
	if token != "" {
		headers = append(headers, "Authorization: Bearer "+token)
	}
	return exchanged(t, method, url, "", headers...)
}

// entries returns the entries of a catalog by their names.
func entries(t *testing.T, url, token string) map[string]catalogEntry {
	t.Helper()
	status, _, body := asked(t, http.MethodGet, url, token)
	var doc struct {
		SpecVersion string
		Host        struct{ DisplayName, Identifier string }
		Entries     []catalogEntry
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil || status != 200 || doc.SpecVersion != "0.9" || doc.Host.DisplayName != "a.example" || doc.Entries == nil {
		t.Fatalf("%d %s, %v", status, body, err)
	}
	list := make(map[string]catalogEntry)
	identifier := regexp.MustCompile(`^urn:air:a\.example(:[a-zA-Z0-9._-]+)+$`) // of ARD's conformance test
	for _, e := range doc.Entries {
		if _, twice := list[e.DisplayName]; twice || !identifier.MatchString(e.Identifier) || e.DisplayName == "" || (e.URL == "") == (e.Data.Name == "") {
			t.Errorf("entry %+v, or one before it", e)
		}
		list[e.DisplayName] = e
	}
	return list
}

// federated returns an endpoint with an MCP server, agents and a partner, which has some, too.
func federated(t *testing.T, rules string) *organisation {
	t.Helper()
	file := filepath.Join(t.TempDir(), "card.json")
	if err := os.WriteFile(file, []byte(`{"name":"far","supportedInterfaces":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cards := func(names ...string) string {
		var list []string
		for _, name := range names {
			list = append(list, fmt.Sprintf("%s: {file: %q}", name, file))
		}
		return "agdisc: {cards: {" + strings.Join(list, ", ") + "}}\n"
	}
	b := open(t, "b", modernYAML(t)+cards("far", "hidden"))
	a := open(t, "a", httpYAML+modernYAML(t)+cards("near", "shown")+"access: {rules: [{identity: 'spiffe://a.example/**'}"+rules+"]}\n")
	a.trusting("b", b, b.addrs[0])
	b.trusting("a", a)
	a.connected("b")
	return a
}

// What a caller sees are the things that the rules let it use, here and behind partners.
func TestTheCatalogOfACallerHasWhatTheRulesLetItUse(t *testing.T) {
	a := federated(t, `, {identity: 'http:alice', profile: mcp, name: [modern, 'modern/**', b/modern, 'b/modern/**']}`+
		`, {identity: 'http:alice', profile: agdisc, operation: get, name: [near, shown, b/far]}`+
		`, {identity: 'http:alice', profile: a2a, operation: task, name: ['a2a/1.0/SendMessage', 'b/far/a2a/1.0/**']}`+
		`, {identity: 'http:guest', profile: agdisc, operation: get, name: shown}`+
		`, {identity: 'http:guest', profile: mcp, operation: tools/call, name: modern/exact}`)
	for _, path := range []string{"/.well-known/ai-catalog.json", "/.well-known/ard.json"} {
		url := a.front() + path
		got := entries(t, url, "secret-a")
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"b/far", "b/modern", "modern", "near", "shown"}) {
			t.Errorf("%s: alice sees %q", path, names)
		}
		for name, want := range map[string]string{"near": "urn:air:a.example:a2a:near", "b/far": "urn:air:a.example:a2a:b:far"} {
			e := got[name]
			if e.Identifier != want || e.Type != "application/a2a-agent-card+json" {
				t.Errorf("%s: %+v", name, e)
			}
			if status, _, card := asked(t, http.MethodGet, e.URL, "secret-a"); status != 200 || !strings.Contains(card, a.front()+"/a2a/"+name) {
				t.Errorf("%s is not its card: %d %s", e.URL, status, card)
			}
		}
		for name, want := range map[string]string{"modern": "urn:air:a.example:mcp:modern", "b/modern": "urn:air:a.example:mcp:b:modern"} {
			e := got[name]
			if e.Identifier != want || e.Type != "application/mcp-server-card+json" || len(e.Data.Remotes) != 1 || e.Data.Remotes[0].Type != "streamable-http" ||
				!regexp.MustCompile(`^example\.a/[a-zA-Z0-9._-]+$`).MatchString(e.Data.Name) || e.Data.Version == "" || e.Data.Description == "" || len(e.Data.Description) > 100 {
				t.Fatalf("%s: %+v", name, e)
			}
			alice := append([]string{"Authorization: Bearer secret-a"}, modernHeaders...)
			if status, _, said := post(t, e.Data.Remotes[0].URL, modernCall, alice...); status != 200 || !strings.Contains(said, sayTool) {
				t.Errorf("%s is not the server: %d %s", e.Data.Remotes[0].URL, status, said)
			}
		}
		// The guest may read the card of an agent, and give it no task.
		if names := slices.Sorted(maps.Keys(entries(t, url, ""))); !slices.Equal(names, []string{"modern"}) {
			t.Errorf("%s: the guest sees %q", path, names)
		}
		if status, _, body := asked(t, http.MethodGet, url, "secret-b"); status != 401 {
			t.Errorf("%s: an unknown token: %d %s", path, status, body)
		}
	}
}

func TestTheCatalogOfACallerWithoutRulesIsEmpty(t *testing.T) {
	a := federated(t, "")
	for _, token := range []string{"", "secret-a"} {
		if got := entries(t, a.front()+"/.well-known/ard.json", token); len(got) != 0 {
			t.Errorf("%q: %v", token, got)
		}
	}
	a.rewrite("access: {", "access: {deny: ['http:alice'], ")
	a.reloaded()
	if status, _, body := asked(t, http.MethodGet, a.front()+"/.well-known/ard.json", "secret-a"); status != 403 {
		t.Errorf("a denied caller: %d %s", status, body)
	}
}

func TestTheCatalogIsCachedByItsCallerAloneAndFollowsTheRules(t *testing.T) {
	const rule = ", {identity: 'http:alice', profile: mcp, name: [modern, 'modern/**']}"
	a := federated(t, rule)
	for path, media := range map[string]string{"/.well-known/ai-catalog.json": "application/ai-catalog+json", "/.well-known/ard.json": "application/json"} {
		url := a.front() + path
		status, header, body := asked(t, http.MethodGet, url, "secret-a")
		etag := header.Get("ETag")
		if status != 200 || header.Get("Content-Type") != media || header.Get("Cache-Control") != "private, no-cache" || etag == "" ||
			!slices.Contains(header.Values("Vary"), "Authorization") || !slices.Contains(header.Values("Vary"), "Host") {
			t.Errorf("%s: %d %v", path, status, header)
		}
		if status, _, again := asked(t, http.MethodGet, url, "secret-a", "If-None-Match: "+etag); status != 304 || again != "" {
			t.Errorf("%s: the same again: %d %q", path, status, again)
		}
		if status, _, other := asked(t, http.MethodGet, url, "", "If-None-Match: "+etag); status != 200 || other == body {
			t.Errorf("%s: the tag of alice, for the guest: %d %s", path, status, other)
		}
		if status, header, none := asked(t, http.MethodHead, url, "secret-a"); status != 200 || header.Get("ETag") != etag || none != "" {
			t.Errorf("%s: HEAD: %d %v %q", path, status, header, none)
		}
		if status, header, _ := post(t, url, "{}", "Authorization: Bearer secret-a"); status != 405 || header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: POST: %d %v", path, status, header)
		}
		if status, _, _ := asked(t, http.MethodGet, url+"?after=nothing", "secret-a"); status != 400 {
			t.Errorf("%s: a cursor of no catalog: %d", path, status)
		}
	}
	url := a.front() + "/.well-known/ard.json"
	_, header, _ := asked(t, http.MethodGet, url, "secret-a")
	a.rewrite(rule, "")
	a.reloaded()
	if status, _, body := asked(t, http.MethodGet, url, "secret-a", "If-None-Match: "+header.Get("ETag")); status != 200 || strings.Contains(body, "modern") {
		t.Errorf("after its rule is gone: %d %s", status, body)
	}
}

// A catalog has pages, each a nested catalog of the one before it.
func TestALargeCatalogHasPages(t *testing.T) {
	file := filepath.Join(t.TempDir(), "card.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	const agents = 2*profiles.MaxList + 1
	var cards strings.Builder
	want := make(map[string]bool)
	for i := range agents {
		name := fmt.Sprintf("agent %03d", i)
		fmt.Fprintf(&cards, "%q: {file: %q}, ", name, file)
		want[name] = true
	}
	a := open(t, "a", httpYAML+modernYAML(t)+"agdisc: {cards: {"+cards.String()+"}}\n"+
		"access: {rules: [{identity: 'spiffe://a.example/**'}, {identity: 'http:guest'}]}\n")
	url, pages := a.front()+"/.well-known/ai-catalog.json", 0
	for url != "" {
		page := entries(t, url, "")
		if pages++; len(page) > 2*profiles.MaxList+1 || pages > 4 {
			t.Fatalf("page %d has %d entries", pages, len(page))
		}
		url = ""
		for name, e := range page {
			switch e.Type {
			case "application/ai-catalog+json":
				url = e.URL
			case "application/a2a-agent-card+json":
				if !want[name] {
					t.Errorf("%s is there twice, or is none", name)
				}
				delete(want, name)
			}
		}
	}
	if pages != 3 || len(want) != 0 {
		t.Errorf("%d pages, without %d agents", pages, len(want))
	}
}
