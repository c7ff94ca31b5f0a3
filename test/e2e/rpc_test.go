package e2e

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles/rpc"
)

// backend runs examples/rpc-backend until the test ends and returns its URL.
func backend(t *testing.T) string {
	t.Helper()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin+"/rpc-backend", "-address", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("rpc-backend ended with %v", err)
		}
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(url)
}

// demoYAML configures the methods of examples/rpc-backend.
func demoYAML(t *testing.T) string {
	t.Helper()
	return "rpc: {backends: {demo: {url: \"" + backend(t) + "\", methods: [demo.echo, demo.stream.count, demo.fail]}}}\n"
}

// kit is the spec kit's demonstration client, as far as its octets go: it
// writes a frame, and reads answers with a minute to come.
type kit struct {
	t    *testing.T
	conn net.Conn
	r    *frame.Reader
}

func newKit(t *testing.T, addr string) *kit {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(addr, "swp+tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &kit{t: t, conn: conn, r: frame.NewReader(conn, frame.Options{})}
}

func (k *kit) write(octets []byte) {
	k.t.Helper()
	if _, err := k.conn.Write(octets); err != nil {
		k.t.Fatal(err)
	}
}

// answer reads an answer to a msg_id.
func (k *kit) answer(msgID string, profile, msgType uint64) []byte {
	k.t.Helper()
	body, err := k.r.Next()
	if err != nil {
		k.t.Fatal(err)
	}
	var env e1.Envelope
	limits := e1.Limits{}.WithDefaults()
	if err := env.Decode(body, &limits); err != nil {
		k.t.Fatal(err)
	}
	if string(env.MsgID) != msgID || env.ProfileID != profile || env.MsgType != msgType || env.Flags != 0 || len(env.Extensions) != 0 {
		k.t.Fatalf("answer to %q of profile %d, type %d, with flags %d and %d octets of extensions; want %q, %d, %d and neither",
			env.MsgID, env.ProfileID, env.MsgType, env.Flags, len(env.Extensions), msgID, profile, msgType)
	}
	return env.Payload
}

// vector returns the octets of a sample of the spec kit.
func vector(t *testing.T, name string) []byte {
	t.Helper()
	octets, err := os.ReadFile(filepath.Join("..", "..", "shared", "data", "kit-vectors", name+".bin"))
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the samples of the spec kit are not here")
	}
	if err != nil {
		t.Fatal(err)
	}
	return octets
}

// countRequest is RPC_REQ demo.stream.count {"count":3} as the kit's client
// writes it: version 1, profile 12, type 1, flags 0, a timestamp, the msg_id
// "rpc-demo-0000001", no extensions.
func countRequest(t *testing.T) []byte {
	t.Helper()
	octets, err := hex.DecodeString(strings.ReplaceAll(
		"00000046 01 0c 01 00 b3a4f4b4c733 10 7270632d64656d6f2d30303030303031 00 29"+
			" 0a27 0a05 636f756e74 1211 64656d6f2e73747265616d2e636f756e74 1a0b 7b22636f756e74223a337d", " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return octets
}

func TestTheKitsDemonstrationClientIsServed(t *testing.T) {
	t.Parallel()
	// The kit's client does not introduce itself, which servers on the official
	// SDK insist on: this one does not mind.
	const easy = `while read -r line; do echo '{"jsonrpc":"2.0","id":"1","result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}'; done`
	command, err := json.Marshal(easy)
	if err != nil {
		t.Fatal(err)
	}
	n := configured(t, demoYAML(t)+"mcp: {servers: {tools: {command: sh, args: [-c, "+string(command)+"]}}}\n")
	t.Run("tools/list, then a stream", func(t *testing.T) {
		k := newKit(t, n.tcp)
		k.write(vector(t, "mcp_0001_request_roundtrip"))
		var answer struct {
			ID     string
			Result struct{ Tools []struct{ Name string } }
		}
		got := k.answer("12345678abcdefgh", 1, 2)
		if err := json.Unmarshal(got, &answer); err != nil || answer.ID != "1" || len(answer.Result.Tools) == 0 {
			t.Errorf("tools/list answered %s, %v", got, err)
		}
		count(t, k)
	})
	t.Run("demo.echo", func(t *testing.T) {
		k := newKit(t, n.tcp)
		k.write(vector(t, "poc_0002_valid_swprpc_request"))
		var m rpc.Resp
		if err := m.Decode(k.answer("abcdef1234567890", 12, 2)); err != nil || string(m.RPCID) != "r1" || string(m.Result) != `{"hello":"world"}` {
			t.Errorf("demo.echo answered %q to %q, %v", m.Result, m.RPCID, err)
		}
	})
	t.Run("a stream", func(t *testing.T) { count(t, newKit(t, n.tcp)) })
}

// count asks for demo.stream.count and wants its answers in order.
func count(t *testing.T, k *kit) {
	t.Helper()
	k.write(countRequest(t))
	for i := uint64(1); i <= 3; i++ {
		var m rpc.StreamItem
		if err := m.Decode(k.answer("rpc-demo-0000001", 12, 4)); err != nil || m.SeqNo != i || string(m.Item) != fmt.Sprint(i) || m.IsTerminal || string(m.RPCID) != "count" {
			t.Errorf("item %+v, %v, want %d", m, err, i)
		}
	}
	var m rpc.Resp
	if err := m.Decode(k.answer("rpc-demo-0000001", 12, 2)); err != nil || string(m.Result) != `{"count":3,"done":true}` || string(m.RPCID) != "count" {
		t.Errorf("result %q, %v", m.Result, err)
	}
}

func TestMethodsFromTheCommandLine(t *testing.T) {
	t.Parallel()
	n := configured(t, demoYAML(t))
	for name, addr := range n.transports() {
		t.Run(name, func(t *testing.T) {
			for _, test := range []struct {
				args   []string
				out    string
				err    string
				failed bool
			}{
				{[]string{"stream", addr, "demo.stream.count", `{"count":3}`}, "1\n2\n3\n{\"count\":3,\"done\":true}\n", "", false},
				{[]string{"call", addr, "demo.stream.count"}, `{"count":5,"done":true}`, "", false},
				{[]string{"call", addr, "demo.stream.count", `{"count":1000}`}, `{"count":100,"done":true}`, "", false},
				{[]string{"call", addr, "demo.echo", "\xffé"}, "\xffé", "", false},
				{[]string{"call", addr, "demo.echo", strings.Repeat("0123456789", 10_000)}, strings.Repeat("0123456789", 10_000), "", false},
				{[]string{"call", addr, "demo.fail"}, "", "swp-client: internal: forced failure (not retryable)\n", true},
				{[]string{"call", addr, "demo.stream.count", "x"}, "", "swp-client: invalid_request: want {\"count\": n} (not retryable)\n", true},
			} {
				cmd := n.client(append([]string{"rpc"}, test.args...)...)
				var out, errs strings.Builder
				cmd.Stdout, cmd.Stderr = &out, &errs
				err := cmd.Run()
				if (err != nil) != test.failed || out.String() != test.out || errs.String() != test.err {
					t.Errorf("%q: %v, output %q, errors %q", test.args, err, out.String(), errs.String())
				}
			}
		})
	}
}

// slow is an HTTP server whose calls wait until they are released or closed,
// but for those with params "one".
type slow struct {
	*httptest.Server
	calls           atomic.Int64
	started, closed chan string
	release         chan struct{}
}

func newSlow(t *testing.T) *slow {
	s := &slow{started: make(chan string, 10), closed: make(chan string, 10), release: make(chan struct{})}
	once := make(chan struct{})
	close(once)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = fmt.Fprintf(w, "{\"item\":\"call %d\"}\n", s.calls.Add(1))
		w.(http.Flusher).Flush()
		s.started <- string(body)
		release := s.release
		if string(body) == "one" {
			release = once
		}
		select {
		case <-release:
			_, _ = fmt.Fprintf(w, "{\"result\":\"%s\"}\n", body)
		case <-r.Context().Done():
			s.closed <- string(body)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *slow) yaml() string {
	return "rpc: {backends: {slow: {url: \"" + s.URL + "\", methods: [slow.once, slow.again], repeatable: [slow.again]}}}\n"
}

func TestInterruptCancelsTheCall(t *testing.T) {
	t.Parallel()
	s := newSlow(t)
	n := configured(t, s.yaml())
	for name, addr := range n.transports() {
		t.Run(name, func(t *testing.T) {
			cmd := n.client("rpc", "stream", addr, "slow.once", name)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, `"call `) {
				t.Errorf("item %q, %v", line, err)
			}
			<-s.started
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			if got := <-s.closed; got != name {
				t.Errorf("the call of %q was closed", got)
			}
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
				t.Errorf("swp-client ended with %v, want exit code 130", err)
			}
		})
	}
}

// A key is for a call whose outcome is worth more than the wait for it: neither
// Ctrl-C nor --timeout makes "cancelled" of it.
func TestCallUnderAKeyGoesOnWithoutItsCaller(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"tls", "quic"} {
		t.Run(name, func(t *testing.T) {
			s := newSlow(t)
			n := configured(t, s.yaml())
			addr := n.transports()[name]
			call := func(timeout string) (*exec.Cmd, *strings.Builder) {
				cmd := n.client("rpc", "call", addr, "slow.once", name, "--idempotency-key", name, "--timeout", timeout)
				var out strings.Builder
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				return cmd, &out
			}
			left := func(cmd *exec.Cmd, out *strings.Builder) {
				if err := cmd.Wait(); err == nil || !strings.Contains(out.String(), "the same --idempotency-key asks for its outcome") {
					t.Errorf("swp-client left with %v: %s", err, out)
				}
			}
			before := s.calls.Load()
			cmd, out := call("30s")
			<-s.started
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			left(cmd, out)
			left(call("1s"))
			close(s.release)
			cmd, out = call("30s")
			if err := cmd.Wait(); err != nil || strings.TrimSpace(out.String()) != `"`+name+`"` {
				t.Errorf("the outcome: %v, %s", err, out)
			}
			if ran := s.calls.Load() - before; ran != 1 {
				t.Errorf("%d calls, want 1", ran)
			}
		})
	}
}

// PR-01 over a kill -9 in the middle of calls: what has ended is answered from
// its record, what was cut off is resolved by its rule, and nothing else runs
// twice.
func TestPR01KeysHoldAfterAKill(t *testing.T) {
	t.Parallel()
	s := newSlow(t)
	n := configured(t, s.yaml())
	call := func(method, params, key string) (string, error) {
		out, err := n.client("rpc", "call", n.tls, method, params, "--idempotency-key", key, "--timeout", "30s").CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if got, err := call("slow.once", "one", "key 1"); err != nil || got != `"one"` {
		t.Fatalf("%s, %v", got, err)
	}
	<-s.started
	for _, method := range []string{"slow.once", "slow.again"} {
		cmd := n.client("rpc", "call", n.tls, method, "two", "--idempotency-key", method, "--timeout", "30s")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cmd.Wait() }()
		<-s.started
	}
	n.kill(t)
	<-s.closed
	<-s.closed
	close(s.release)
	n.launch(t)
	before := s.calls.Load()
	if got, err := call("slow.once", "one", "key 1"); err != nil || got != `"one"` {
		t.Errorf("after the kill: %s, %v, want the outcome of before", got, err)
	}
	if got, err := call("slow.once", "other", "key 1"); err == nil || !strings.Contains(got, "invalid_request") {
		t.Errorf("other params: %s, %v, want a conflict", got, err)
	}
	for range 2 {
		if got, err := call("slow.once", "two", "slow.once"); err == nil || !strings.Contains(got, "outcome unknown") {
			t.Errorf("a call that was cut off: %s, %v", got, err)
		}
		if got, err := call("slow.again", "two", "slow.again"); err != nil || got != `"two"` {
			t.Errorf("a repeatable call that was cut off: %s, %v", got, err)
		}
	}
	if ran := s.calls.Load() - before; ran != 1 {
		t.Errorf("%d calls after the kill, want the repeatable one once", ran)
	}
}
