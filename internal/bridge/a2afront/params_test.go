package a2afront_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/internal/bridge/a2afront"
	"github.com/slimwire/swp/profiles/a2a"
)

func TestServiceParametersGoAlongAndCredentialsDoNot(t *testing.T) {
	b := newBench(t, "", a2a.Options{}, a2afront.Options{Params: []string{"X-Trip"}}, fixed(`{}`))
	header := []string{
		"A2A-Extensions: https://e.example/1, https://e.example/2", "A2A-Extensions: https://e.example/3", "A2a-Future: x=y ",
		"X-Trip: 7", "X-Other: 8", "Authorization: Bearer secret", "Cookie: secret", "Proxy-Authorization: secret", "Swp-Peer: http:mallory",
		"Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	want := []string{
		"a2a-extensions=https://e.example/1, https://e.example/2", "a2a-extensions=https://e.example/3", "a2a-future=x=y", "x-trip=7", "a2a-version=1.0",
	}
	for _, got := range []answer{b.rpc("GetTask", `{}`, header...), b.do("GET", "/a2a/weather/tasks/x", "", header...)} {
		if got.status != 200 {
			t.Errorf("%d %s", got.status, got.body)
		}
		if diff := cmp.Diff(want, b.given().Params); diff != "" {
			t.Error(diff)
		}
	}
}

func TestVersionIsEnforced(t *testing.T) {
	b := newBench(t, "", a2a.Options{}, a2afront.Options{}, fixed(`{}`))
	for _, row := range []struct {
		header, query string
		good          bool
	}{
		{"A2A-Version: 1.0", "", true},
		{"A2A-Version", "?A2A-Version=1.0", true},
		{"A2A-Version", "?a2a-version=1.0", true},
		{"A2A-Version: 1.0", "?A2A-Version=0.3", true}, // the header counts
		{"A2A-Version", "", false},
		{"A2A-Version: ", "", false},
		{"A2A-Version: 0.3", "", false},
		{"A2A-Version: 1", "", false},
		{"A2A-Version: 1.1", "", false},
		{"A2A-Version: 1.0, 1.0", "", false},
		{"A2A-Version", "?A2A-Version=0.3", false},
		{"A2A-Version", "?A2A-Version=1.0&A2A-Version=1.0", false},
	} {
		rest := b.do("GET", "/a2a/weather/tasks/x"+row.query, "", row.header)
		rpc := b.do("POST", "/a2a/weather"+row.query, `{"jsonrpc":"2.0","id":1,"method":"GetTask"}`, row.header)
		if row.good {
			if rest.status != 200 || strings.Contains(rpc.body, "error") {
				t.Errorf("%q %q: %d %s, %s", row.header, row.query, rest.status, rest.body, rpc.body)
			}
			b.given()
			b.given()
			continue
		}
		if rest.status != 400 || !strings.Contains(rest.body, "VERSION_NOT_SUPPORTED") || !strings.Contains(rpc.body, `"id":1,"error":{"code":-32009,`) {
			t.Errorf("%q %q: %d %s, %s", row.header, row.query, rest.status, rest.body, rpc.body)
		}
		b.untouched(row.header)
	}
}

func TestRequiredExtensionsAreEnforced(t *testing.T) {
	const card = `{"name":"w","capabilities":{"extensions":[{"uri":"https://e.example/must","required":true},{"uri":"https://e.example/may"}]}}`
	b := newBench(t, card, a2a.Options{}, a2afront.Options{}, fixed(`{}`))
	for header, good := range map[string]bool{
		"A2A-Extensions: https://e.example/must":                           true,
		"A2A-Extensions: https://e.example/other , https://e.example/must": true,
		"A2A-Extensions: https://e.example/may":                            false,
		"A2A-Extensions: https://e.example/must/more":                      false,
		"A2A-Extensions": false,
	} {
		rest := b.do("GET", "/a2a/weather/tasks/x", "", header)
		rpc := b.rpc("GetTask", `{}`, header)
		stream := b.rpc("SubscribeToTask", `{}`, header)
		if good {
			if rest.status != 200 || strings.Contains(rpc.body+stream.body, "error") {
				t.Errorf("%s: %d %s", header, rest.status, rest.body)
			}
			for range 3 {
				b.given()
			}
			continue
		}
		if rest.status != 400 || !strings.Contains(rest.body, "EXTENSION_SUPPORT_REQUIRED") || !strings.Contains(rpc.body, `"code":-32008`) ||
			!strings.HasPrefix(stream.body, `data: {"jsonrpc":"2.0","id":1,"error":{"code":-32008`) {
			t.Errorf("%s: %d %s, %s, %s", header, rest.status, rest.body, rpc.body, stream.body)
		}
		b.untouched(header)
	}
}

func TestServiceParametersAboveTheLimitAreRefused(t *testing.T) {
	b := newBench(t, "", a2a.Options{}, a2afront.Options{}, fixed(`{}`))
	// Of the 3,584 octets that there are, 28 are others: the agent with 7, its
	// version with 15, a type and a length for each of the three, two for this one.
	const room = 3584 - 7 - 15 - 2*3 - 1 - len("a2a-x=")
	for n, status := range map[int]int{room: 200, room + 1: 431} {
		header := "A2A-X: " + strings.Repeat("x", n)
		if got := b.do("GET", "/a2a/weather/tasks/x", "", header); got.status != status || status != 200 && !strings.HasPrefix(got.body, `{"error":{"code":431,`) {
			t.Errorf("%d octets: %d %s", n, got.status, got.body)
		}
		if got := b.rpc("GetTask", `{}`, header); got.status != status {
			t.Errorf("%d octets: %d %s", n, got.status, got.body)
		}
	}
}

func TestHeadersThatStayAreNoServiceParameters(t *testing.T) {
	for _, name := range []string{"", "a b", "Authorization", "cookie", "Proxy-Authorization", "Swp-Peer", "Content-Type", "HOST", "X-Forwarded-For"} {
		if err := a2afront.CheckParam(name); err == nil {
			t.Errorf("%q is one", name)
		}
	}
	for _, name := range []string{"X-Trip", "traceparent", "x"} {
		if err := a2afront.CheckParam(name); err != nil {
			t.Error(err)
		}
	}
}
