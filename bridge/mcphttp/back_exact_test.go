package mcphttp_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/slimwire/swp/bridge/mcphttp"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// toServer is the corpus on its way to the server: %s is a member of params.
var toServer = map[string]string{
	"id above 2^53":           `{"jsonrpc":"2.0","id":9007199254740993,"method":"hex","params":{%s}}`,
	"id of 20 digits":         `{"jsonrpc":"2.0","id":12345678901234567890,"method":"hex","params":{%s}}`,
	"id 1.0":                  `{"jsonrpc":"2.0","id":1.0,"method":"hex","params":{%s}}`,
	"id 1e2":                  `{"jsonrpc":"2.0","id":1e2,"method":"hex","params":{%s}}`,
	"string id with escapes":  `{"jsonrpc":"2.0","id":"\u0061\/b","method":"hex","params":{%s}}`,
	"duplicates in params":    `{"jsonrpc":"2.0","id":1,"method":"hex","params":{"a":1,"a":2,%s,"a":3}}`,
	"odd white space":         " \t{ \"jsonrpc\" :\t\"2.0\" ,  \"id\":1 , \"method\":\"hex\" , \"params\" : { %s } } \t",
	"line ends":               "{\"jsonrpc\":\"2.0\",\r\n\"id\":1,\n\"method\":\"hex\",\r\"params\":{%s}}\n",
	"key order":               `{"params":{%s},"method":"hex","id":1,"jsonrpc":"2.0"}`,
	"escaped names":           `{"jsonrpc":"2.0","\u0069d":1,"m\u0065thod":"h\u0065x","params":{%s}}`,
	"unknown members":         `{"jsonrpc":"2.0","id":1,"method":"hex","x":{"id":2},"methods":"no","params":{%s,"y":[null,1.50]}}`,
	"duplicate unknown names": `{"jsonrpc":"2.0","x":1,"x":2,"id":1,"method":"hex","params":{%s}}`,
	"characters":              `{"jsonrpc":"2.0","id":1,"method":"hex","params":{"t":"é😀\ud83d\ude00\ud800\u0000","n":-0.0e+0,%s}}`,
	"a string of a MiB":       `{"jsonrpc":"2.0","id":1,"method":"hex","params":{"t":"` + strings.Repeat("0123456789abcdef", 1<<16) + `",%s}}`,
}

// fromServer is the corpus on its way back. Where a line ends in an event, a line
// feed is meant: that is all that events can say.
var fromServer = map[string]string{
	"id above 2^53":        `{"jsonrpc":"2.0","id":9007199254740993,"result":{}}`,
	"id 1.0":               `{"jsonrpc":"2.0","id":1.0,"result":{}}`,
	"id 1e2":               `{"jsonrpc":"2.0","id":1e2,"result":{}}`,
	"string id":            `{"jsonrpc":"2.0","id":"\u0061","result":{}}`,
	"duplicates in result": `{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":{"b":[]},"a":null}}`,
	"odd white space":      "  { \"result\"\t:1.00,  \"id\" :  1 ,\"jsonrpc\":\"2.0\" }\t ",
	"several lines":        "{\n\n  \"jsonrpc\": \"2.0\",\n\t\"id\": 1,\n\"result\": {}\n}\n",
	"id null":              `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}`,
	"no id":                `{"jsonrpc":"2.0","error":{"code":-32700,"message":"?","data":[1.0]}}`,
	"unknown members":      `{"jsonrpc":"2.0","id":1,"x":"\u0041","result":{"y":1E400},"x":2}`,
	"characters":           `{"jsonrpc":"2.0","id":1,"result":"é😀\ud83d\ude00\udc00\u0000\/"}`,
	"a string of a MiB":    `{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("\\u00e9é=", 1<<17) + `"}`,
}

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
	for _, era := range []string{"stateless", "session"} {
		for _, events := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, events %v", era, events), func(t *testing.T) {
				s := behind(t, saying(t, events), mcphttp.BackendOptions{})
				c := s.dial("alice")
				session, mark := "", modernMeta
				if era == "session" {
					session, mark = c.open(mcpmap.Events{}), `"z":0`
				}
				for name, form := range toServer {
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
				for name, said := range fromServer {
					var m mcpmap.Message
					if err := m.Scan([]byte(said)); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					id := string(m.ID())
					if id == "" || id == "null" {
						id = "1"
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
