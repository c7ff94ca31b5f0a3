package a2ahttp

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
)

func TestEventsAreReadAsTheStandardHasThem(t *testing.T) {
	for name, row := range map[string]struct {
		stream string
		want   []string
	}{
		"line feeds":    {"data: {\"a\":1}\n\ndata: {}\n\n", []string{`{"a":1}`, `{}`}},
		"CR":            {"data: {\"a\":1}\r\rdata: {}\r\r", []string{`{"a":1}`, `{}`}},
		"CRLF":          {"data: {\"a\":1}\r\n\r\ndata: {}\r\n\r\n", []string{`{"a":1}`, `{}`}},
		"a mark":        {"\xef\xbb\xbfdata: {}\n\n", []string{`{}`}},
		"several lines": {"data: {\"a\":\ndata:1\ndata: }\n\n", []string{"{\"a\":\n1\n}"}},
		"one space":     {"data:  {} \n\ndata:{}\n\n", []string{" {} ", "{}"}},
		"other fields":  {"id: 1\nevent: x\nretry: 5\n\n: c\ndata: {}\nid\nwhat: ever\n\n", []string{"{}"}},
		"cut off":       {"data: {}\n\ndata: {\"a\":1}\n", []string{"{}"}},
		"cut line":      {"data: {}\n\ndata: {\"a\"", []string{"{}"}},
		"nothing":       {"", nil},
		"comments":      {": a\n\n:b\n\n", nil},
	} {
		agent := newAgent(t, func(w http.ResponseWriter, _ *http.Request, _ asked) {
			begin(w)
			for i := range len(row.stream) { // in the smallest of pieces
				_, _ = flushing{w}.Write([]byte{row.stream[i]})
			}
		})
		b := newBack(t, BackOptions{URL: agent.URL, Binding: REST})
		events, _ := b.mustRun(taskFrom(alice, a2abinding.SendStreamingMessage, `{}`))
		if diff := cmp.Diff(row.want, events); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
