package mcphttp_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/bridge/mcphttp"
	"github.com/slimwire/swp/internal/bridge/mcptest"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// saying is a server that answers "hex" with the request and "say" with its text, as
// JSON or as events.
func saying(t *testing.T, events bool) http.Handler {
	return script(t, func(w http.ResponseWriter, p *posted) {
		var octets string
		switch {
		case p.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		case p.msg.Is("hex"):
			octets = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":"%s"}`, p.msg.ID(), hex.EncodeToString(p.body))
		default:
			var params struct{ Text string }
			if err := json.Unmarshal(p.msg.Params(), &params); err != nil {
				t.Error(err)
			}
			octets = params.Text
		}
		if !events {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			_, _ = w.Write([]byte(octets))
			return
		}
		send := streaming(w)
		note := `{ "jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":` + strings.TrimSpace(octets) + "}}"
		for _, message := range []string{note, octets} {
			send("event: message\nid: 1\ndata: %s\n\n", strings.ReplaceAll(message, "\n", "\ndata: "))
		}
	})
}

func TestGW07OctetsArriveAsTheyWereSent(t *testing.T) {
	effort.Unwatched(t)
	for _, era := range []string{"stateless", "session"} {
		for _, events := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, events %v", era, events), func(t *testing.T) {
				s := behind(t, saying(t, events), mcphttp.BackendOptions{})
				c := s.dial("alice")
				session, mark := "", modernMeta
				if era == "session" {
					session, mark = c.open(mcpmap.Events{}), `"z":0`
				}
				for name, form := range mcptest.Requests {
					sent := fmt.Sprintf(form, mark)
					var answer struct{ Result string }
					if err := json.Unmarshal(c.in(session, sent).Octets, &answer); err != nil {
						t.Fatalf("request with %s: %v", name, err)
					}
					got, err := hex.DecodeString(answer.Result)
					if err != nil {
						t.Fatalf("request with %s: %v", name, err)
					}
					same(t, "request with "+name, string(got), sent)
				}
				for name, response := range mcptest.Responses {
					id, said := response.ID, response.Octets
					if events {
						said = mcptest.LineFeeds(said)
					}
					text, err := json.Marshal(said)
					if err != nil {
						t.Fatal(err)
					}
					var note []byte
					r := c.call(&mcpmap.Call{
						Session: session, Octets: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"say","params":{%s,"text":%s}}`, id, mark, text),
						Events: mcpmap.Events{Notification: func(octets []byte) { note = octets }},
					})
					same(t, "response with "+name, string(r.Octets), said)
					if events {
						want := `{ "jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":` + strings.TrimSpace(said) + "}}"
						same(t, "notification with "+name, string(note), want)
					}
				}
				st := s.server.Stats()
				same(t, "dropped", st.Dropped, 0)
				same(t, "noise", st.Noise, 0)
			})
		}
	}
}
