package a2afront_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/bridge/a2afront"
	"github.com/slimwire/swp/profiles/a2a"
)

// oddCard is a card as no encoder would write it.
const oddCard = "\n{ \"name\" : \"w\\u0065ather\", \"n\":9007199254740993,\"signatures\":[{\"protected\":\"x\"}] ,\n \"supportedInterfaces\":[{\"url\":\"https://far.example\"}], \"x\":{\"signatures\":[1]},\"x\":2 }\n"

func TestCardsNameThisFront(t *testing.T) {
	for _, row := range []struct {
		url, host, want string
	}{
		{"", "", ""},
		{"https://gw.example.org/", "", "https://gw.example.org/a2a/weather"},
	} {
		b := newBench(t, oddCard, a2a.Options{}, a2afront.Options{Default: "weather", URL: row.url}, fixed(`{}`))
		at := row.want
		if at == "" {
			at = b.server.URL + "/a2a/weather"
		}
		want := `{"name" : "w\u0065ather","n":9007199254740993,"x":{"signatures":[1]},"x":2,` +
			`"supportedInterfaces":[{"url":"` + at + `","protocolBinding":"JSONRPC","protocolVersion":"1.0"},{"url":"` + at + `","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"}]}`
		for _, path := range []string{"/.well-known/agent-card.json", "/a2a/weather/.well-known/agent-card.json"} {
			got := b.do("GET", path, "", "A2A-Version")
			if got.status != 200 || got.body != want || !json.Valid([]byte(got.body)) || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("%d %s\nwant %s", got.status, got.body, want)
			}
			if c := got.header.Get("Cache-Control"); c != "private, max-age=60" {
				t.Errorf("Cache-Control %q", c)
			}
			etag := got.header.Get("ETag")
			for header, status := range map[string]int{
				"If-None-Match: " + etag: 304, "If-None-Match: \"x\", W/" + etag: 304, "If-None-Match: *": 304, `If-None-Match: "x"`: 200,
			} {
				if again := b.do("GET", path, "", header); again.status != status || status == 304 && again.body != "" || again.header.Get("ETag") != etag {
					t.Errorf("%s: %d", header, again.status)
				}
			}
			if head := b.do("HEAD", path, ""); head.status != 200 || head.body != "" || head.header.Get("ETag") != etag {
				t.Errorf("HEAD: %d", head.status)
			}
		}
	}
}

func TestTheOriginalCardKeepsItsOctets(t *testing.T) {
	b := newBench(t, oddCard, a2a.Options{}, a2afront.Options{}, fixed(`{}`))
	if got := b.do("GET", "/a2a/weather/agent-card.original.json", ""); got.body != oddCard {
		t.Errorf("%q", got.body)
	}
	b = newBench(t, oddCard, a2a.Options{}, a2afront.Options{Verbatim: true}, fixed(`{}`))
	if got := b.do("GET", "/a2a/weather/.well-known/agent-card.json", ""); got.body != oddCard {
		t.Errorf("%q", got.body)
	}
}

func TestCardsThatAreNotThere(t *testing.T) {
	for _, row := range []struct {
		card, path, caller string
		status             int
	}{
		{"", "/a2a/weather/.well-known/agent-card.json", "alice", 404},
		{oddCard, "/a2a/other/.well-known/agent-card.json", "alice", 404},
		{oddCard, "/a2a/weather/.well-known/agent-card.json", "mallory", 404},
		{oddCard, "/a2a/weather/agent-card.original.json", "mallory", 404},
		{`["no object"]`, "/a2a/weather/.well-known/agent-card.json", "alice", 502},
		{`["no object"]`, "/a2a/weather/agent-card.original.json", "alice", 200},
	} {
		b := newBench(t, row.card, a2a.Options{Access: without("http:mallory")}, a2afront.Options{}, fixed(`{}`))
		got := b.do("GET", row.path, "", callerHeader+": "+row.caller)
		if got.status != row.status || !strings.Contains(got.body, "o") {
			t.Errorf("%s %s: %d %s", row.caller, row.path, got.status, got.body)
		}
	}
}
