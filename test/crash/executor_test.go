package crash

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/internal/netcut"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/store/sqlstore"
)

// execute is the agent: its tasks outlive its connections, and end with its process.
func (w *worker) execute(ctx context.Context) {
	state, err := sqlstore.Open(ctx, sqlstore.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = state.Close() }()
	connect := func(ctx context.Context, set *all.Set) (*client.Client, error) {
		for {
			c, err := w.near(ctx, set)
			if err == nil || ctx.Err() != nil {
				return c, err
			}
			wait(ctx, retryPause)
		}
	}
	for ctx.Err() == nil { // without a first connection Work ends
		_ = client.Work(ctx, connect, client.WorkOptions{
			Agent: agent, Store: state,
			Registration: a2a.Registration{Kinds: []string{kind}, Worker: a2a.WorkerFunc(w.carryOut), Tasks: 64},
			Connected:    func(*client.Client) { w.j.begin(entry{What: didBegin, Kind: anExecutor}) },
			Report: func(err error) {
				if ctx.Err() == nil {
					w.j.begin(entry{What: sawFault, ID: agent, Text: err.Error()})
				}
			},
		})
		wait(ctx, retryPause)
	}
}

// awaitExecutor waits until an executor has declared itself: until then its kind of task is
// unknown.
func awaitExecutor(ctx context.Context, dir string) error {
	for ctx.Err() == nil {
		names, err := filepath.Glob(filepath.Join(dir, roleExecutor+"-*"+ending))
		if err != nil {
			return err
		}
		for _, name := range names {
			s, _, err := leftBy(dir, strings.TrimSuffix(filepath.Base(name), ending))
			if _, declared := s.open[anExecutor+" "]; declared || err != nil {
				return err
			}
		}
		wait(ctx, retryPause)
	}
	return context.Cause(ctx)
}

// carryOut carries out one task and writes down that it did.
func (w *worker) carryOut(ctx context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
	op := w.j.begin(entry{What: didRun, Kind: aTask, ID: string(t.Input)})
	for i := range steps {
		if err := event("", fmt.Append(nil, i+1)); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(2 * time.Millisecond): // work that takes a while
		}
	}
	w.j.write(entry{Op: op, What: didFinish, Kind: aTask, ID: string(t.Input)})
	return outputOf(string(t.Input)), nil
}

func outputOf(input string) []byte {
	sum := sha256.Sum256([]byte(input))
	return sum[:]
}

// counter counts and writes down how often each thing has run in a process.
type counter struct {
	j    *journal
	kind string

	mu   sync.Mutex
	runs map[string]int
}

func newCounter(dir, name, kind string) (*counter, error) {
	j, err := openJournal(dir, name)
	return &counter{j: j, kind: kind, runs: make(map[string]int)}, err
}

// ran counts one more, and returns how many that makes.
func (c *counter) ran(id string) int {
	c.j.begin(entry{What: didRun, Kind: c.kind, ID: id})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[id]++
	return c.runs[id]
}

// backend serves the method over HTTP, until the test ends, and returns what swpd has to
// know of it.
func backend(t *testing.T, dir string) string {
	t.Helper()
	count, err := newCounter(dir, "backend", aCall)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		params, err := io.ReadAll(r.Body)
		if err != nil {
			return // swpd is gone, and was not told to run anything
		}
		_, _ = io.WriteString(rw, resultOf(string(params), count.ran(string(params))))
	}))
	_ = server.Listener.Close()
	if server.Listener, err = net.Listen("tcp", netcut.Here()+":0"); err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(server.Close)
	return fmt.Sprintf("rpc: {backends: {crash: {url: %q, methods: [%s]}}}\n", server.URL, method)
}

// toolsConfig has this program be the MCP server of a swpd.
func toolsConfig(t *testing.T, dir string) string {
	t.Helper()
	cmd, err := post{Role: roleTools, Journals: dir}.command()
	if err != nil {
		t.Fatal(err)
	}
	env := post{Role: roleTools, Journals: dir}.env()
	return fmt.Sprintf("mcp: {servers: {%s: {command: %q, env: {%s: %q}}}}\n", toolServer, cmd.Path, postVariable, env[0][len(postVariable)+1:])
}

// serveTools is an MCP server with one tool, until its input ends.
func serveTools(dir string) error {
	count, err := newCounter(dir, fmt.Sprintf("%s-%d-%d", roleTools, os.Getpid(), clock()), aToolCall)
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var m mcpmap.Message
		if m.Scan(in.Bytes()) != nil || len(m.ID()) == 0 {
			continue
		}
		answer := func(result string) error {
			_, err := fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID(), result)
			return err
		}
		switch {
		case m.Is(mcpmap.MethodDiscover):
			err = answer(`{"supportedVersions":["` + mcpmap.ModernVersion + `"],"capabilities":{"tools":{}},"serverInfo":{"name":"crash","version":"1"}}`)
		case m.Is("tools/list"):
			err = answer(`{"tools":[{"name":"` + toolName + `","inputSchema":{"type":"object"}}],"resultType":"complete"}`)
		case !m.Is("tools/call"):
			_, err = fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", m.ID())
		default:
			var params struct{ Arguments struct{ ID string } }
			if err = json.Unmarshal(m.Params(), &params); err == nil {
				count.ran(params.Arguments.ID)
				err = answer(toolResult(params.Arguments.ID))
			}
		}
		if err != nil {
			return err
		}
	}
	return in.Err()
}
