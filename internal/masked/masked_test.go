package masked_test

import (
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/masked"
)

func TestWhatLooksLikeASecretIsMasked(t *testing.T) {
	const hidden = "hUnter2"
	for _, text := range []string{
		"API_KEY=" + hidden, "export OPENAI_API_KEY = '" + hidden + " two words'", "token: " + hidden, `{"password": "` + hidden + `"}`, `"key":"` + hidden + `"`,
		"apiKey: " + hidden, "Authorization: Bearer " + hidden, "authorization=Basic " + hidden, "sent Bearer " + hidden + "xx.yy-zz", "db_passwd => " + hidden,
		"run --api-key " + hidden + " now", "-token " + hidden, "connect postgres://root:" + hidden + "@db.example/x", "https://" + hidden + "@example.com/",
		"key eyJ" + hidden + "abc.eyJzdWIi.c2lnbmF0dXJl", "invalid: sk-proj-" + hidden + "abcdefgh", "ghp_" + hidden + "abcdefghijkl",
		"digest 0123456789abcdef0123456789abcdef" + "0123", "sent " + hidden + strings.Repeat("aB3x", 8), "Cookie: " + hidden,
		"secret=\"" + hidden + `\" and ` + hidden + `"`, "client_secret=" + hidden,
	} {
		got := masked.Text(text)
		if strings.Contains(got, hidden) || strings.Contains(got, "0123456789abcdef") || !strings.Contains(got, masked.Mark) {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestWhatSaysTheCauseStays(t *testing.T) {
	for _, text := range []string{
		"FATAL: API_KEY is not set", "KeyError: 'API_KEY'", "token: missing", "password: not set", "unknown key: limits.idel", "TypeError: Cannot read properties of undefined (reading 'key')",
		"/usr/lib/python3/dist-packages/mcp/server/lowlevel/Server2.py: line 12", "Error: Cannot find module '/srv/mcp/node_modules/@modelcontextprotocol/sdk/dist/index.js'",
		"listen tcp 127.0.0.1:8080: bind: address already in use", "https://example.com/a/b?x=1", "a-long-name-of-a-service-in-production-without-secrets",
		"basic test", "==================================", strings.Repeat("x", 100), "panic: runtime error: index out of range [3] with length 3", "",
	} {
		if got := masked.Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestLinesOfAPEMBlockAreMasked(t *testing.T) {
	var lines masked.Lines
	for _, one := range []struct {
		line string
		hide bool
	}{
		{"before", false}, {"-----BEGIN PRIVATE KEY-----", true}, {"MC4CAQAwBQYDK2VwBCIEIA", true}, {"ab==", true}, {"-----END PRIVATE KEY-----", true}, {"after", false},
	} {
		if got := lines.Inside([]byte(one.line)); got != one.hide {
			t.Errorf("%q is hidden: %v", one.line, got)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, text := range []string{"", "token: x", "a://b@c", "--key \xff", "-----BEGIN X"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := masked.Text(text); len(got) > 16*len(text)+len(masked.Mark) {
			t.Errorf("%d octets became %d", len(text), len(got))
		}
	})
}
