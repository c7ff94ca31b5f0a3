package mcpstdio_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slimwire/swp/bridge/mcpstdio"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// requests is the corpus on its way to the server: %s is the method, and in
// the stateless era also the _meta that says so.
var requests = map[string]string{
	"id above 2^53":           `{"jsonrpc":"2.0","id":9007199254740993,"method":"hex","params":{%s}}`,
	"id of 20 digits":         `{"jsonrpc":"2.0","id":12345678901234567890,"method":"hex","params":{%s}}`,
	"id 1.0":                  `{"jsonrpc":"2.0","id":1.0,"method":"hex","params":{%s}}`,
	"id 1e2":                  `{"jsonrpc":"2.0","id":1e2,"method":"hex","params":{%s}}`,
	"string id with escapes":  `{"jsonrpc":"2.0","id":"\u0061\/b","method":"hex","params":{%s}}`,
	"duplicates in params":    `{"jsonrpc":"2.0","id":1,"method":"hex","params":{"a":1,"a":2,%s,"a":3}}`,
	"odd white space":         " \t{ \"jsonrpc\" :\t\"2.0\" ,  \"id\":1 , \"method\":\"hex\" , \"params\" : { %s } } \t",
	"key order":               `{"params":{%s},"method":"hex","id":1,"jsonrpc":"2.0"}`,
	"escaped names":           `{"jsonrpc":"2.0","\u0069d":1,"m\u0065thod":"h\u0065x","params":{%s}}`,
	"unknown members":         `{"jsonrpc":"2.0","id":1,"method":"hex","x":{"id":2},"methods":"no","params":{%s,"y":[null,1.50]}}`,
	"duplicate unknown names": `{"jsonrpc":"2.0","x":1,"x":2,"id":1,"method":"hex","params":{%s}}`,
	"characters":              `{"jsonrpc":"2.0","id":1,"method":"hex","params":{"t":"é😀\ud83d\ude00\ud800\u0000","n":-0.0e+0,%s}}`,
	"a string of a MiB":       `{"jsonrpc":"2.0","id":1,"method":"hex","params":{"t":"` + strings.Repeat("0123456789abcdef", 1<<16) + `",%s}}`,
}

// responses is the corpus on its way back.
var responses = map[string]string{
	"id above 2^53":        `{"jsonrpc":"2.0","id":9007199254740993,"result":{}}`,
	"id 1.0":               `{"jsonrpc":"2.0","id":1.0,"result":{}}`,
	"id 1e2":               `{"jsonrpc":"2.0","id":1e2,"result":{}}`,
	"string id":            `{"jsonrpc":"2.0","id":"\u0061","result":{}}`,
	"duplicates in result": `{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":{"b":[]},"a":null}}`,
	"odd white space":      "  { \"result\"\t:1.00,\r \"id\" :  1 ,\"jsonrpc\":\"2.0\" }\t ",
	"id null":              `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}`,
	"no id":                `{"jsonrpc":"2.0","error":{"code":-32700,"message":"?","data":[1.0]}}`,
	"unknown members":      `{"jsonrpc":"2.0","id":1,"x":"\u0041","result":{"y":1E400},"x":2}`,
	"characters":           `{"jsonrpc":"2.0","id":1,"result":"é😀\ud83d\ude00\udc00\u0000\/"}`,
	"a string of a MiB":    `{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("\\u00e9é=", 1<<17) + `"}`,
}

func TestGW07OctetsArriveAsTheyWereSent(t *testing.T) {
	overAll(t, func(t *testing.T, kind string) {
		for _, era := range []string{"modern", "legacy"} {
			s := serve(t, era, mcpstdio.Config{})
			c := s.dialOver(kind)
			session, mark := "", meta
			if era == "legacy" {
				session, mark = c.initialize(mcpmap.Events{}), `"z":0`
			}
			for name, form := range requests {
				sent := fmt.Sprintf(form, mark)
				want(t, "request with "+name, unhex(t, c.in(session, sent)), sent)
			}
			for name, line := range responses {
				var m mcpmap.Message
				if err := m.Scan([]byte(line)); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				id := string(m.ID())
				if id == "" || id == "null" {
					id = "1"
				}
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
