// Package mcptest has messages of MCP that survive unchanged only where octets
// are passed on: decoding and encoding changes them.
package mcptest

import (
	"strings"

	"github.com/slimwire/swp/internal/effort"
)

// long is how many octets the longest strings have: a MiB, which goes out in several
// pieces, where that is a matter of milliseconds.
var long = func() int {
	if effort.Watched {
		return 64 << 10
	}
	return 1 << 20
}()

// Requests is the corpus on its way to a server, which answers the method "hex"
// with the octets that it got: %s is to be replaced by a member of params.
var Requests = map[string]string{
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
	"a long string":           `{"jsonrpc":"2.0","id":1,"method":"hex","params":{"t":"` + strings.Repeat("0123456789abcdef", long/16) + `",%s}}`,
}

// Response is one on its way back.
type Response struct {
	ID     string // of the request that it answers, octet for octet
	Octets string
}

// Responses is the corpus on its way back.
var Responses = map[string]Response{
	"id above 2^53":        {`9007199254740993`, `{"jsonrpc":"2.0","id":9007199254740993,"result":{}}`},
	"id 1.0":               {`1.0`, `{"jsonrpc":"2.0","id":1.0,"result":{}}`},
	"id 1e2":               {`1e2`, `{"jsonrpc":"2.0","id":1e2,"result":{}}`},
	"string id":            {`"\u0061"`, `{"jsonrpc":"2.0","id":"\u0061","result":{}}`},
	"duplicates in result": {`1`, `{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":{"b":[]},"a":null}}`},
	"odd white space":      {`1`, "  { \"result\"\t:1.00,  \"id\" :  1 ,\"jsonrpc\":\"2.0\" }\t "},
	"several lines":        {`1`, "{\n\n  \"jsonrpc\": \"2.0\",\n\t\"id\": 1,\n\"result\": {}\n}\n"},
	"carriage return":      {`1`, "{\"jsonrpc\":\"2.0\",\r\"id\":1,\r\n\"result\":{} }"},
	"id null":              {`1`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}`},
	"no id":                {`1`, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"?","data":[1.0]}}`},
	"unknown members":      {`1`, `{"jsonrpc":"2.0","id":1,"x":"\u0041","result":{"y":1E400},"x":2}`},
	"characters":           {`1`, `{"jsonrpc":"2.0","id":1,"result":"é😀\ud83d\ude00\udc00\u0000\/"}`},
	"a long string":        {`1`, `{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("\\u00e9é=", long/9) + `"}`},
}

var (
	spaces = strings.NewReplacer("\r", " ", "\n", " ")
	feeds  = strings.NewReplacer("\r\n", "\n", "\r", "\n")
)

// OneLine returns what becomes of the line breaks between tokens where a message is
// a line, on standard streams, and where it is an event.
func OneLine(octets string) string { return spaces.Replace(octets) }

// LineFeeds returns what an event can say of the line breaks of a message: every one
// is a line feed there.
func LineFeeds(octets string) string { return feeds.Replace(octets) }

// Answer returns the answer to one request in the body of a response, the body or the data
// of its last event. Answers that take long come as events.
func Answer(body string) string {
	body = strings.TrimSpace(body)
	if strings.HasPrefix(body, "{") || !strings.Contains(body, "data:") {
		return body
	}
	var data []string
	for line := range strings.Lines(body[strings.LastIndex(body, "\n\n")+1:]) {
		if text, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data:"); ok {
			data = append(data, strings.TrimPrefix(text, " "))
		}
	}
	return strings.Join(data, "\n")
}
