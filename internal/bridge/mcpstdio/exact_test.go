package mcpstdio_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/bridge/mcpstdio"
	"github.com/slimwire/swp/internal/bridge/mcptest"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles/mcpmap"
)

func TestGW07OctetsArriveAsTheyWereSent(t *testing.T) {
	effort.Unwatched(t)
	overAll(t, func(t *testing.T, kind string) {
		for _, era := range []string{"modern", "legacy"} {
			s := serve(t, era, mcpstdio.Config{})
			c := s.dialOver(kind)
			session, mark := "", meta
			if era == "legacy" {
				session, mark = c.initialize(mcpmap.Events{}), `"z":0`
			}
			for name, form := range mcptest.Requests {
				sent := fmt.Sprintf(mcptest.OneLine(form), mark)
				want(t, "request with "+name, unhex(t, c.in(session, sent)), sent)
			}
			for name, response := range mcptest.Responses {
				id, line := response.ID, strings.ReplaceAll(response.Octets, "\n", " ")
				request := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"say","params":{%s,"text":%s}}`, id, mark, quote(line))
				want(t, "response with "+name, c.in(session, request), line)
			}
			st := s.server.Stats()
			want(t, "octets replaced", st.Replaced, 0)
			want(t, "messages dropped", st.Dropped, 0)
			want(t, "noise", st.Noise, 0)
		}
	})
}

func TestLineEndsBetweenTokensBecomeSpaces(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{})
	c := s.dial("alice")
	sent := "{\"jsonrpc\":\"2.0\",\r\n\"id\":1,\n\"method\":\"hex\",\"params\":{" + meta + ",\"t\":\"\\r\\n\"}}\n"
	got := unhex(t, c.do(sent))
	want(t, "line", got, strings.NewReplacer("\r", " ", "\n", " ").Replace(sent))
	want(t, "replaced", s.server.Stats().Replaced, 4)
}
