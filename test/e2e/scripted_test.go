package e2e

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// scripted as its first argument makes the test binary an MCP server on its standard
// streams; the next is the era that it speaks.
const scripted = "scripted-mcp-server"

// script is an MCP server that says, octet for octet, what requests tell it to, and
// tells, in hex, which octets it has received. Its methods: hex (the request), say (the
// text is the answer), tell (the text comes ahead of the answer), ask (the answer is the
// response to the text) and heard (the answer is the next notification).
type script struct {
	say  func(octets string) // to whoever sent the request
	read func() string       // the next that is no request
}

type instruction struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct{ Text string }
}

func read(octets string) (in instruction, request bool) {
	if err := json.Unmarshal([]byte(octets), &in); err != nil {
		panic(fmt.Sprintf("%.200q: %v", octets, err))
	}
	return in, in.Method != "" && in.ID != nil
}

// wanted says whether a notification or a response is one of the test's.
func wanted(octets string) bool { return strings.Contains(octets, `"odd"`) }

func (s script) do(octets, era string) {
	in, _ := read(octets)
	answer := func(result string) { s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, in.ID, result)) }
	received := func(octets string) { answer(`"` + hex.EncodeToString([]byte(octets)) + `"`) }
	switch in.Method {
	case "server/discover":
		if era != "modern" {
			s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, in.ID))
			return
		}
		answer(`{"supportedVersions":["2026-07-28"],"capabilities":{}}`)
	case "initialize":
		answer(`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`)
	case "hex":
		received(octets)
	case "say":
		s.say(in.Params.Text)
	case "tell":
		s.say(in.Params.Text)
		answer("{}")
	case "ask":
		s.say(in.Params.Text)
		received(s.read())
	case "heard":
		received(s.read())
	default:
		answer("{}")
	}
}

// scriptedOnStdio serves on the standard streams until their end.
func scriptedOnStdio(era string) {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	var kept []string // until it is wanted
	next := func() (line string, more bool) {
		line, err := in.ReadString('\n')
		return strings.TrimSuffix(line, "\n"), err == nil
	}
	s := script{say: func(octets string) { _, _ = io.WriteString(os.Stdout, octets+"\n") }}
	s.read = func() (line string) {
		if len(kept) > 0 {
			line, kept = kept[0], kept[1:]
			return line
		}
		for more := true; more && !wanted(line); {
			line, more = next()
		}
		return line
	}
	for line, more := next(); more; line, more = next() {
		if _, request := read(line); request {
			s.do(line, era)
		} else if wanted(line) {
			kept = append(kept, line)
		}
	}
}

// scriptedAtURL serves by Streamable HTTP until the test ends, and answers with JSON,
// or events where that is wanted or needed.
func scriptedAtURL(t *testing.T, era string, events bool) string {
	t.Helper()
	kept := make(chan string, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		octets := string(body)
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		in, request := read(octets)
		switch {
		case !request:
			if wanted(octets) {
				kept <- octets
			}
			w.WriteHeader(http.StatusAccepted)
			return
		case in.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", "one")
		}
		s := script{read: func() string {
			select {
			case octets := <-kept:
				return octets
			case <-r.Context().Done():
				return ""
			}
		}}
		if events || in.Method == "tell" || in.Method == "ask" {
			w.Header().Set("Content-Type", "text/event-stream")
			s.say = func(octets string) {
				_, _ = fmt.Fprintf(w, "event: message\ndata: %s\n\n", strings.ReplaceAll(octets, "\n", "\ndata: "))
				_ = http.NewResponseController(w).Flush()
			}
		} else {
			w.Header().Set("Content-Type", "application/json")
			s.say = func(octets string) { _, _ = io.WriteString(w, octets) }
		}
		s.do(octets, era)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
