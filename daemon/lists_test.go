package daemon

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcptest"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// listsMain is an MCP server of both eras that has a list of tools in pages, and says
// that it tells of changes but never does.
func listsMain() int {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m mcpmap.Message
		if m.Scan(in.Bytes()) != nil || m.ID() == nil {
			continue
		}
		switch string(m.Method()) {
		case mcpmap.MethodInitialize:
			reply(m.ID(), `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"lists","version":"1"}}`)
		case mcpmap.MethodDiscover:
			reply(m.ID(), `{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"lists","version":"1"}}`)
		case mcpmap.MethodListen:
			fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"`+mcpmap.MetaSubscriptionID+
				`":%s},"notifications":{"toolsListChanged":true}}}`+"\n", m.ID())
		case "tools/list":
			var params struct{ Cursor string }
			_ = json.Unmarshal(m.Params(), &params)
			reply(m.ID(), listPages[params.Cursor])
		case "resources/list":
			reply(m.ID(), `{"resources":[{"uri":"file:///a"}, {"uri":"file:///b"}],"cacheScope":"public"}`)
		default:
			reply(m.ID(), `"`+string(m.Tool())+`"`)
		}
	}
	return 0
}

// listPages are the pages of listsMain by cursor, as no encoder would write them.
var listPages = map[string]string{
	"":   `{"ttlMs":1e3, "tools" : [ {"name":"read","n":1.0} , {"n\u0061me":"write"} ],"nextCursor":"p\u0032"}`,
	"p2": `{"tools":[{"name":"erase"},{"name":"e\ud800"},{"name":"read","Name":"erase"}],"cacheScope":"public","nextCursor":"p3"}`,
	"p3": `{"tools":[{"name":"look"}]}`,
}

// seen is what is left of listPages, by what may be called.
var (
	seenRead = map[string]string{
		"":   `{"ttlMs":1e3, "tools" : [ {"name":"read","n":1.0}   ],"nextCursor":"p\u0032","cacheScope":"private"}`,
		"p2": `{"tools":[],"cacheScope":"private","nextCursor":"p3"}`,
		"p3": `{"tools":[],"cacheScope":"private"}`,
	}
	seenMore = map[string]string{
		"":   listPages[""],
		"p2": `{"tools":[{"name":"erase"}],"cacheScope":"private","nextCursor":"p3"}`,
		"p3": listPages["p3"],
	}
)

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}`

// sees wants every page of the list, asked for by ask with params.
func sees(t *testing.T, who string, want map[string]string, ask func(params string) string) {
	t.Helper()
	for cursor, page := range want {
		if got, want := ask(`"cursor":"`+cursor+`"`), `{"jsonrpc":"2.0","id":9007199254740993,"result":`+page+`}`; got != want {
			t.Errorf("%s, page %q:\n got %s\nwant %s", who, cursor, got, want)
		}
	}
}

const (
	listsAccess = "access: {rules: [{identity: '**', profile: mcp, operation: [initialize, ping, 'notifications/**', server/discover, subscriptions/listen, resources/list], name: 'b/lists'}, " +
		"{identity: '**', profile: mcp, operation: tools/list, name: 'b/lists'}, {identity: '**', profile: mcp, operation: tools/call, name: [b/lists/read]}]}\n"
	listsMore = "name: [b/lists/read, b/lists/write, b/lists/erase, b/lists/look]"
)

// Callers of every kind see of a server of a partner what the rules here let them use,
// in both eras; and hear of it when the rules change, while calls go on.
func TestListsShowWhatMayBeUsed(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		yaml := strings.Replace(strings.Replace(childYAML(t), "child:", "lists:", 1), childEnv+": '1'", childEnv+": lists", 1)
		a, _ := pairOf(t, transport, httpYAML+listsAccess, yaml)
		s := a.mustDial(a.addrs[transport])
		heard := make(chan string, 16)
		events := mcpmap.Events{Notification: func(octets []byte) { heard <- string(octets) }}
		ask := func(call mcpmap.Call) string {
			call.Target = "b/lists"
			result, err := s.ask(t, call)
			if err != nil {
				t.Error(err)
				return err.Error()
			}
			return string(result.Octets)
		}
		opened, err := s.ask(t, mcpmap.Call{Target: "b/lists", Events: events, Octets: []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.mapping.Client(s.Session).Notify(t.Context(), "b/lists", opened.Session, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
			t.Fatal(err)
		}
		request := func(method, params string) []byte {
			return []byte(`{"jsonrpc":"2.0","id":9007199254740993,"method":"` + method + `","params":{` + params + `}}`)
		}
		url := a.front() + "/mcp/b/lists"
		_, header, _ := post(t, url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
		web := "Mcp-Session-Id: " + header.Get("Mcp-Session-Id")
		post(t, url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, web)
		callers := map[string]func(params string) string{
			"modern": func(params string) string {
				return ask(mcpmap.Call{Octets: request("tools/list", params+","+modernMeta)})
			},
			"legacy": func(params string) string {
				return ask(mcpmap.Call{Session: opened.Session, Octets: request("tools/list", params)})
			},
			"modern over HTTP": func(params string) string {
				_, _, got := post(t, url, string(request("tools/list", params+","+modernMeta)), "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list")
				return mcptest.Answer(got)
			},
			"legacy over HTTP": func(params string) string {
				_, _, got := post(t, url, string(request("tools/list", params)), web)
				return mcptest.Answer(got)
			},
		}
		for who, caller := range callers {
			sees(t, who, seenRead, caller)
		}
		if got, want := ask(mcpmap.Call{Octets: request("resources/list", modernMeta)}), `{"jsonrpc":"2.0","id":9007199254740993,"result":{"resources":[ ],"cacheScope":"private"}}`; got != want {
			t.Errorf("resources that may not be read: %s, want %s", got, want)
		}
		if _, metrics := a.get("/metrics"); strings.Contains(metrics, `swpd_denials_total{profile="mcp"} `) {
			t.Error("what was left out counts as denied")
		}

		subscribed := make(chan struct{})
		go func() {
			_, err := s.ask(t, mcpmap.Call{Target: "b/lists", Events: events, Octets: []byte(`{"jsonrpc":"2.0","id":"sub","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + modernMeta + `}}`)})
			_ = err // it ends with the connection
			close(subscribed)
		}()
		want(t, heard, "acknowledged")
		stream := listen(t, url, header.Get("Mcp-Session-Id"))
		stop := calling(t, a)
		a.rewrite("name: [b/lists/read]", listsMore)
		a.reloaded()
		both := want(t, heard, "") + want(t, heard, "")
		for _, notification := range []string{
			`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
			`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"` + mcpmap.MetaSubscriptionID + `":"sub"}}}`,
		} {
			if !strings.Contains(both, notification) {
				t.Errorf("heard %s, want %s", both, notification)
			}
		}
		want(t, stream, "notifications/tools/list_changed")
		for who, caller := range callers {
			sees(t, who, seenMore, caller)
		}
		stop()
		s.Close(0)
		<-subscribed
	})
}

// want waits for something that contains a text.
func want(t *testing.T, heard <-chan string, text string) string {
	t.Helper()
	select {
	case got := <-heard:
		if !strings.Contains(got, text) {
			t.Errorf("heard %s, want %s", got, text)
		}
		return got
	case <-time.After(patience):
		t.Fatalf("heard nothing of %s", text)
		return ""
	}
}

// listen opens the GET stream of a session and returns the data of its events.
func listen(t *testing.T, url, session string) <-chan string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Accept": {"text/event-stream"}, "Mcp-Session-Id": {session}}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET: %+v, %v", resp, err)
	}
	lines := make(chan string, 16)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			if data, ok := strings.CutPrefix(in.Text(), "data:"); ok && data != " " { // the first has an id only
				lines <- data
			}
		}
	}()
	t.Cleanup(func() {
		_ = resp.Body.Close()
		<-done
	})
	return lines
}

// calling calls a tool that may be called all the time, from several connections, and
// wants each call answered, until the function that it returns is called.
func calling(t *testing.T, a *organisation) (stop func()) {
	t.Helper()
	quit := make(chan struct{})
	var work sync.WaitGroup
	for i := range 2 {
		s := a.mustDial(a.addrs[i])
		work.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-quit:
					if n == 0 {
						t.Error("nothing was called")
					}
					return
				default:
				}
				result, err := s.ask(t, mcpmap.Call{Target: "b/lists", Octets: fmt.Appendf(nil,
					`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"read",%s}}`, n, modernMeta)})
				if err != nil || string(result.Octets) != fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":"read"}`, n) {
					t.Errorf("a call under way while the rules change: %+v, %v", result, err)
					return
				}
			}
		})
	}
	return func() {
		close(quit)
		work.Wait()
	}
}
