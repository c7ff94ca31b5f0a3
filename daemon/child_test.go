package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles/mcpmap"
)

// childEnv makes this test binary an MCP server.
const childEnv = "SWPD_TEST_CHILD"

// childMain is a small legacy MCP server. Its tools: pid (answers its process
// id), wait (answers when the socket it is given is closed), hang (never
// answers), say (writes its argument to standard error), note (appends it to the file
// NOTES).
func childMain() int {
	switch os.Getenv(childEnv) {
	case "modern":
		return modernMain()
	case "flood-legacy", "flood-modern":
		return floodMain(os.Getenv(childEnv) == "flood-modern")
	case "lists":
		return listsMain()
	case "node":
		return nodeMain()
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name      string
				Arguments map[string]string
			}
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		switch {
		case m.Method == "initialize":
			reply(m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"child","version":"1"}}`)
		case m.Method == "tools/list":
			reply(m.ID, `{"tools":[`+sayTool+`,{"name":"pid","inputSchema":{"type":"object"}}]}`)
		case m.Method != "tools/call":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`+"\n", m.ID)
		case m.Params.Name == "pid":
			reply(m.ID, fmt.Sprint(os.Getpid()))
		case m.Params.Name == "say":
			fmt.Fprintln(os.Stderr, m.Params.Arguments["text"])
			reply(m.ID, `"said"`)
		case m.Params.Name == "note":
			file, err := os.OpenFile(os.Getenv("NOTES"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err == nil {
				fmt.Fprintln(file, m.Params.Arguments["text"])
				_ = file.Close()
			}
			reply(m.ID, `{"content":[]}`)
		case m.Params.Name == "wait":
			go func(id json.RawMessage, socket string) {
				if conn, err := net.Dial("unix", socket); err == nil {
					_, _ = io.Copy(io.Discard, conn)
				}
				reply(id, `"waited"`)
			}(m.ID, m.Params.Arguments["socket"])
		}
	}
	return 0
}

// sayTool is a tool as no encoder would write it.
const sayTool = `{ "name":"s\u0061y",  "inputSchema" : {"type":"object", "n":9007199254740993, "x":1e400 } }`

func reply(id json.RawMessage, result string) {
	fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result)
}

// childYAML configures the test binary as the MCP server "child".
func childYAML(t *testing.T, more ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("mcp:\n  servers:\n    child:\n      command: %s\n      env: {%s: '1'%s}\n", self, childEnv, strings.Join(more, ""))
}

// initialize opens a legacy session and returns its name.
func (s *session) initialize(t *testing.T) string {
	t.Helper()
	return s.do(t, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`).Session
}

func (s *session) do(t *testing.T, name, request string) *mcpmap.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := s.mapping.Client(s.Session).Do(ctx, &mcpmap.Call{Session: name, Octets: []byte(request)})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// tool calls a tool of the child and returns the octets of the answer.
func (s *session) tool(t *testing.T, name, tool, arguments string) string {
	t.Helper()
	quoted, err := json.Marshal(tool)
	if err != nil {
		t.Fatal(err)
	}
	return string(s.do(t, name, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%s,"arguments":%s}}`, quoted, arguments)).Octets)
}
