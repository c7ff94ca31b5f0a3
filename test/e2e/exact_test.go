package e2e

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/bridge/mcptest"
	"github.com/slimwire/swp/internal/effort"
)

// caller is an HTTP client of an MCP server.
type caller struct {
	t       *testing.T
	url     string
	era     string
	session string
}

// call opens a server.
func call(t *testing.T, url, era string) *caller {
	t.Helper()
	c := &caller{t: t, url: url, era: era}
	if era == "modern" {
		return c
	}
	r := c.post(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}`, "initialize")
	result := said(t, r)
	if c.session = r.Header.Get("Mcp-Session-Id"); c.session == "" {
		t.Fatalf("no session: %d %s", r.StatusCode, result)
	}
	if r := c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, ""); r.StatusCode != http.StatusAccepted {
		t.Fatalf("initialized: %d %s", r.StatusCode, all(t, r))
	}
	return c
}

// reply is a response, whose body is read from it; it is closed at the end of the test.
type reply struct {
	io.Reader
	StatusCode int
	Header     http.Header
}

// post sends a message. header, if there, is the name and the value of one more.
func (c *caller) post(octets, method string, header ...string) *reply {
	c.t.Helper()
	req, err := http.NewRequestWithContext(within(c.t), http.MethodPost, c.url, strings.NewReader(octets))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.era == "modern" {
		req.Header.Set("MCP-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", method)
	}
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
	}
	if len(header) == 2 {
		req.Header.Set(header[0], header[1])
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = r.Body.Close() })
	return &reply{r.Body, r.StatusCode, r.Header}
}

// request is one of a method of the scripted server, whose text is octets.
func (c *caller) request(id, method, text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		c.t.Fatal(err)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s,"text":%s}}`, id, method, c.mark(), quoted)
}

// mark is the member of params that makes a request one of its era.
func (c *caller) mark() string {
	if c.era == "modern" {
		return `"_meta":{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	}
	return `"_meta":{"progressToken":"p"}`
}

func all(t *testing.T, r io.Reader) string {
	t.Helper()
	octets, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(octets)
}

// answer returns the answer of a request, and whether it is an event: a call of a session that lasts
// is answered by a stream.
func answer(t *testing.T, r *reply) (octets string, streamed bool) {
	t.Helper()
	if strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		return event(t, bufio.NewReader(r)), true
	}
	return all(t, r), false
}

// said is answer in either form.
func said(t *testing.T, r *reply) string {
	t.Helper()
	octets, _ := answer(t, r)
	return octets
}

// event returns the data of the next event.
func event(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && data != "\n" {
			return strings.TrimSuffix(data, "\n")
		}
	}
}

// unhex is what a server says that it has received.
func unhex(t *testing.T, said string) string {
	t.Helper()
	var r struct{ Result string }
	if err := json.Unmarshal([]byte(said), &r); err != nil {
		t.Fatalf("%.200s: %v", said, err)
	}
	octets, err := hex.DecodeString(r.Result)
	if err != nil {
		t.Fatalf("%.200s: %v", said, err)
	}
	return string(octets)
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %.300q, want %.300q", what, got, want)
	}
}

// Octets that a relay which decodes would change go from an HTTP client through the
// front of one organisation and the swpd of two to a server, and back.
func TestGW07OctetsPassTwoOrganisationsUnchanged(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var servers strings.Builder
	servers.WriteString("mcp:\n  servers:\n")
	for _, era := range []string{"modern", "legacy"} {
		fmt.Fprintf(&servers, "    stdio-%s: {command: %q, args: [%s, %s]}\n", era, self, scripted, era)
		fmt.Fprintf(&servers, "    json-%s: {url: %q}\n", era, scriptedAtURL(t, era, false))
		fmt.Fprintf(&servers, "    events-%s: {url: %q}\n", era, scriptedAtURL(t, era, true))
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	for i, transport := range []string{"tls", "quic"} {
		front := behind(t, transport, servers.String())
		for j, kind := range []string{"stdio", "json", "events"} {
			for k, era := range []string{"modern", "legacy"} {
				if !effort.Due(i+j+k, 2) {
					continue // each pair of a transport, a kind and an era is still there
				}
				t.Run(transport+"/"+kind+"/"+era, func(t *testing.T) {
					c := call(t, front+"/mcp/far/"+kind+"-"+era, era)
					c.requests(kind == "stdio")
					c.responses(kind)
					c.messages()
					if era == "legacy" {
						c.questions()
					}
				})
			}
		}
	}
}

// requests are compared as the server has received them.
func (c *caller) requests(lines bool) {
	for name, form := range mcptest.Requests {
		sent := fmt.Sprintf(form, c.mark())
		got := unhex(c.t, said(c.t, c.post(sent, "hex")))
		if lines {
			sent = mcptest.OneLine(sent)
		}
		same(c.t, "request with "+name, got, sent)
	}
}

// responses are compared as the client has got them, as a document and as an event.
func (c *caller) responses(kind string) {
	for name, said := range mcptest.Responses {
		switch kind {
		case "stdio":
			said.Octets = mcptest.OneLine(said.Octets)
		case "events":
			said.Octets = mcptest.LineFeeds(said.Octets)
		}
		sent := c.request(said.ID, "say", said.Octets)
		r := c.post(sent, "say")
		switch octets, streamed := answer(c.t, r); {
		case streamed && c.era == "legacy": // it took longer than a stream is waited for
			same(c.t, "response with "+name, octets, mcptest.OneLine(said.Octets))
		case strings.HasPrefix(r.Header.Get("Content-Type"), "application/json"):
			same(c.t, "response with "+name, octets, said.Octets)
		default:
			c.t.Errorf("response with %s: %s", name, r.Header.Get("Content-Type"))
		}
		r = c.post(sent, "say", "Accept", "text/event-stream, application/json")
		if strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
			same(c.t, "event with "+name, event(c.t, bufio.NewReader(r)), mcptest.OneLine(said.Octets))
		} else {
			c.t.Errorf("event with %s: %s", name, r.Header.Get("Content-Type"))
		}
	}
}

// messages are notifications, of the server while it works on a request and of the client.
func (c *caller) messages() {
	note := `{ "method":"notifications\/progress","jsonrpc":"2.0","x":1.0,"x":1E400, "params":{"progressToken":"p" ,"progress":1.0,"n":9007199254740993,"t":"\u00e9é\/\ud800"} }`
	r := c.post(c.request("2.0", "tell", note), "tell")
	events := bufio.NewReader(r)
	same(c.t, "notification of the server", event(c.t, events), note)
	same(c.t, "answer after it", event(c.t, events), `{"jsonrpc":"2.0","id":2.0,"result":{}}`)
	if c.era == "modern" {
		return // clients have none to send
	}
	note = `{"method":"notifications/\u0078",  "jsonrpc":"2.0","odd":1.0,"odd":12345678901234567890, "params":{"t":"\u00e9é\/\ud800"}}`
	if r := c.post(note, ""); r.StatusCode != http.StatusAccepted {
		c.t.Fatalf("%d %s", r.StatusCode, all(c.t, r))
	}
	same(c.t, "notification of the client", unhex(c.t, said(c.t, c.post(c.request("3", "heard", ""), "heard"))), note)
}

// questions are requests of the server, and what the client responds.
func (c *caller) questions() {
	question := `{"method":"roots\/list", "jsonrpc":"2.0", "id":9007199254740993 ,"x":1.0,"x":1E400}`
	response := `{ "result":{"roots":[ ],"odd":1,"odd":1.0,"t":"\u00e9é\/\ud800"},  "id":9007199254740993,"jsonrpc":"2.0"}`
	r := c.post(c.request("4", "ask", question), "ask")
	events := bufio.NewReader(r)
	same(c.t, "question", event(c.t, events), question)
	if r := c.post(response, ""); r.StatusCode != http.StatusAccepted {
		c.t.Fatalf("%d %s", r.StatusCode, all(c.t, r))
	}
	same(c.t, "response", unhex(c.t, event(c.t, events)), response)
}
