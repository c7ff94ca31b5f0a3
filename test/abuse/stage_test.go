//go:build abuse

package abuse

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/tlsconn"
)

// Identities of a stage. Rules allow everything to honest, loud and the partner acme, and
// nothing to nobody. HTTP callers have the same names; their tokens are their names.
const (
	honest = "spiffe://localhost/good"
	loud   = "spiffe://localhost/loud"
	nobody = "spiffe://localhost/nobody"
	acme   = "spiffe://acme.example/swpd"
)

// stage is a swpd with every entrance open, and the identities of those who use it.
type stage struct {
	*victim
	policies map[string]*transport.Policy
	work     sync.WaitGroup
}

// childEnv makes the test binary an MCP server: quiet, loud or deaf.
const childEnv = "ABUSE_CHILD"

// newStage runs swpd until the test ends. limits are lines of its configuration.
func newStage(t *testing.T, env []string, more string, limits ...string) *stage {
	t.Helper()
	v := &victim{t: t, dir: t.TempDir(), who: "id0"} // that of honest
	pki := filepath.Join(v.dir, "pki")
	if err := devpki.Create(pki, devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	servers := ""
	for _, name := range []string{"quiet", "loud", "deaf"} {
		servers += fmt.Sprintf("    %s: {command: %q, env: {%s: %s}}\n", name, self, childEnv, name)
	}
	callers := ""
	for _, name := range []string{"honest", "loud", "nobody"} {
		sum := sha256.Sum256([]byte(name))
		callers += fmt.Sprintf("    %s: {tokens: [%q]}\n", name, hex.EncodeToString(sum[:]))
	}
	conf := fmt.Sprintf(`identity: {cert: pki/server.crt, key: pki/server.key}
trust: {ca: [pki/ca.crt]}
admin: 127.0.0.1:0
data: data
access:
  rules: [{identity: [%q, %q, %q, "http:honest", "http:loud"]}]
  agents: [{identity: "**", agent_ids: "**"}]
listeners: [{address: "swp+tls://127.0.0.1:0"}, {address: "swp+quic://127.0.0.1:0"}]
partners: {acme: {identity: %q}}
mcp:
  servers:
%shttp:
  address: 127.0.0.1:0
  callers:
%sa2a: {workers: {slow: {kinds: [work], command: sleep, args: ["1"]}}}
sdl: {agent_id: "did:web:server.example"}
%slimits:
`, honest, loud, acme, acme, servers, callers, more)
	for _, l := range limits {
		conf += "  " + l + "\n"
	}
	v.launch(conf, env)
	s := &stage{victim: v, policies: make(map[string]*transport.Policy)}
	authority, err := devpki.Open(pki)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{honest, loud, nobody, acme} {
		files, err := authority.Issue(filepath.Join(v.dir, fmt.Sprint("id", i)), devpki.Request{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(authority.Bundle())
		c := &transport.Credentials{Certificate: &pair, Roots: roots}
		s.policies[name] = &transport.Policy{Credentials: func() *transport.Credentials { return c }}
	}
	return s
}

// childMain is an MCP server of the later era. Each answers to tools/call: quiet with a few
// octets; loud with as many as the name of the tool says, after 64 KiB on standard error.
// deaf reads nothing after the first request.
func childMain(kind string) int {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	noise := []byte(strings.Repeat(strings.Repeat("x", 1023)+"\n", 64))
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		var m mcpmap.Message
		if m.Scan(line) != nil {
			continue
		}
		result := `{"content":[]}`
		switch {
		case m.Is(mcpmap.MethodDiscover):
			result = `{"supportedVersions":["2026-07-28"],"capabilities":{},"serverInfo":{"name":"x","version":"1"}}`
		case m.ID() == nil:
			continue
		case kind == "deaf":
			select {}
		case kind == "loud":
			_, _ = os.Stderr.Write(noise)
			var n int
			_, _ = fmt.Sscan(string(m.Tool()), &n)
			result = `{"content":[],"x":"` + strings.Repeat("x", n) + `"}`
		}
		fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID(), result)
		if out.Flush() != nil {
			return 0
		}
	}
}

// dialAs connects a peer with an identity.
func (s *stage) dialAs(ctx context.Context, who, over string) (transport.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if over == "quic" {
		return quicconn.Dial(ctx, s.quic, s.policies[who], quicconn.Options{HandshakeTimeout: 10 * time.Second})
	}
	return tlsconn.Dial(ctx, s.tls, s.policies[who], tlsconn.Options{HandshakeTimeout: 10 * time.Second})
}

// message is a frame with a new msg_id.
func message(profile, msgType uint64, payload []byte) []byte {
	id := make([]byte, 8)
	_, _ = rand.Read(id)
	env := e1.Envelope{Version: 1, ProfileID: profile, MsgType: msgType, MsgID: id, Payload: payload}
	return frame.Append(nil, env.Append(nil))
}

// cast has n attackers do something again and again until ctx ends, with a pause after each
// time.
func (s *stage) cast(ctx context.Context, n int, pause time.Duration, do func(ctx context.Context, i int)) {
	for i := range n {
		s.work.Go(func() {
			for ctx.Err() == nil {
				do(ctx, i)
				select {
				case <-time.After(pause):
				case <-ctx.Done():
				}
			}
		})
	}
}

// within calls do with a connection of an identity, which is closed afterwards.
func (s *stage) within(ctx context.Context, who, over string, do func(conn transport.Conn)) {
	conn, err := s.dialAs(ctx, who, over)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close(0) }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close(0) })
	defer stop()
	do(conn)
}

// send writes frames on a new stream of a connection, and returns it.
func send(ctx context.Context, conn transport.Conn, octets []byte) transport.Stream {
	stream, err := conn.Open(ctx)
	if err != nil {
		return nil
	}
	_ = stream.SetWriteDeadline(time.Now().Add(20 * time.Second))
	_, _ = stream.Write(octets)
	return stream
}

// rest waits for a time, or the end of ctx or of a connection.
func rest(ctx context.Context, conn transport.Conn, d time.Duration) {
	over := ctx.Done()
	if conn != nil {
		c, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(conn.Context(), cancel)()
		over = c.Done()
	}
	select {
	case <-time.After(d):
	case <-over:
	}
}

// drain reads and forgets what comes on a stream.
func drain(stream io.Reader) {
	buf := make([]byte, 16<<10)
	for {
		if _, err := stream.Read(buf); err != nil {
			return
		}
	}
}

// head is that of a POST of a caller.
func head(path, token string, size int, more string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"Authorization: Bearer %s\r\n%sContent-Length: %d\r\n\r\n", path, token, more, size)
}

// callTool is a request of MCP, with octets of padding.
func callTool(tool string, padding int) (headers, body string) {
	return "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: " + tool + "\r\n",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","pad":"` + strings.Repeat("x", padding) +
			`","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
}

// visit opens a TCP connection for a while, and says something.
func visit(ctx context.Context, address string, stay time.Duration, say ...string) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(stay + 10*time.Second))
	for _, text := range say {
		if _, err := io.WriteString(conn, text); err != nil {
			return
		}
	}
	// It does not read, but notices its end.
	gone := time.Now().Add(stay)
	for time.Now().Before(gone) && ctx.Err() == nil {
		rest(ctx, nil, 250*time.Millisecond)
		if _, err := conn.Write(nil); err != nil {
			return
		}
	}
}

// tally is what a well-behaved peer has seen.
type tally struct {
	mu     sync.Mutex
	name   string
	took   []time.Duration
	failed []string
}

// behave has a well-behaved peer make one exchange after the other, each after a pause, until
// ctx ends. It returns after the first: a new connection of an address that is not known may be
// refused in a burst, also an honest one.
func (s *stage) behave(ctx context.Context, name string, pause time.Duration, exchange func(ctx context.Context) error) *tally {
	s.t.Helper()
	t := &tally{name: name}
	if err := exchange(ctx); err != nil {
		s.t.Fatalf("%s, before anybody else: %v", name, err)
	}
	s.work.Go(func() {
		for ctx.Err() == nil {
			c, cancel := context.WithTimeout(ctx, 30*time.Second)
			began := time.Now()
			err := exchange(c)
			took := time.Since(began)
			cancel()
			if ctx.Err() == nil {
				t.mu.Lock()
				if err != nil {
					t.failed = append(t.failed, fmt.Sprintf("after %v: %v", took.Round(time.Millisecond), err))
				} else {
					t.took = append(t.took, took)
				}
				t.mu.Unlock()
			}
			rest(ctx, nil, pause)
		}
	})
	return t
}

// result returns the number of exchanges, of failures among them, and the 99th percentile.
func (t *tally) result() (all, failed int, p50, p99 time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	took := slices.Sorted(slices.Values(t.took))
	if n := len(took); n > 0 {
		p50, p99 = took[n/2], took[n*99/100]
	}
	return len(took) + len(t.failed), len(t.failed), p50, p99
}

func (t *tally) String() string {
	all, failed, p50, p99 := t.result()
	text := fmt.Sprintf("%s: %d exchanges, %d failed, p50 %v, p99 %v", t.name, all, failed, p50.Round(10*time.Microsecond), p99.Round(10*time.Microsecond))
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, why := range t.failed[:min(3, len(t.failed))] {
		text += "; " + why
	}
	return text
}

// echoes returns an exchange of a peer: an echo on a connection that it keeps.
func (s *stage) echoes(who, over string) func(ctx context.Context) error {
	return s.exchanges(who, over, func() ([]byte, string) { return call("swp.echo", []byte("hello")), "hello" })
}

// exchanges returns exchanges of a peer on a connection that it keeps: it sends what next
// returns, and the first answer contains the text.
func (s *stage) exchanges(who, over string, next func() (request []byte, answer string)) func(ctx context.Context) error {
	var conn transport.Conn
	return func(ctx context.Context) error {
		if conn == nil || conn.Context().Err() != nil {
			made, err := s.dialAs(ctx, who, over)
			if err != nil {
				return fmt.Errorf("dial: %w", err)
			}
			conn = made
			s.t.Cleanup(func() { _ = made.Close(0) })
		}
		stream, err := conn.Open(ctx)
		if err != nil {
			return err
		}
		request, want := next()
		defer context.AfterFunc(ctx, func() { _ = stream.SetReadDeadline(time.Unix(1, 0)) })()
		if _, err := stream.Write(request); err != nil {
			return err
		}
		if over == "quic" {
			_ = stream.CloseWrite()
		}
		var length [frame.HeaderSize]byte
		if _, err := io.ReadFull(stream, length[:]); err != nil {
			_ = conn.Close(0)
			return err
		}
		body := make([]byte, int(length[0])<<24|int(length[1])<<16|int(length[2])<<8|int(length[3]))
		if _, err := io.ReadFull(stream, body); err != nil {
			return err
		}
		if !strings.Contains(string(body), want) {
			return fmt.Errorf("answered %.80q", body)
		}
		return nil
	}
}

// asks returns an exchange of a caller over HTTP: a call of a tool of the server quiet.
func (s *stage) asks(token string) func(ctx context.Context) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConns: 1}}
	s.t.Cleanup(client.CloseIdleConnections)
	return func(ctx context.Context) error {
		_, body := callTool("x", 0)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.http+"/mcp/quiet", strings.NewReader(body))
		if err != nil {
			return err
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token,
			"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "x",
		} {
			r.Header.Set(name, value)
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err == nil && (answer.StatusCode != http.StatusOK || !strings.Contains(string(text), `"content"`)) {
			err = fmt.Errorf("%s %.200q", answer.Status, text)
		}
		return err
	}
}

// gauge returns a metric of the victim, the sum of its series.
func (s *stage) gauge(name string) (float64, error) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + s.admin + "/metrics")
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	sum, found := 0.0, false
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		series, text, _ := strings.Cut(lines.Text(), " ")
		if series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		var v float64
		if _, err := fmt.Sscan(text, &v); err != nil {
			return 0, err
		}
		sum, found = sum+v, true
	}
	if !found {
		return 0, errors.New("no metric " + name)
	}
	return sum, nil
}

// denied returns how many denials of each operation the log of the victim has, and how many its
// audit trail has.
func (s *stage) denied() (logged, recorded map[string]int, err error) {
	count := func(in map[string]int, text string) {
		var l struct {
			Msg, Profile, Operation string
			Times                   int
			TrailTimes              int    `json:"swp.times"`
			TrailProfile            string `json:"swp.profile"`
			TrailOperation          string `json:"swp.operation"`
		}
		if json.Unmarshal([]byte(text), &l) == nil && (l.Msg == "" || strings.HasPrefix(l.Msg, "denied")) {
			in[l.Profile+l.TrailProfile+" "+l.Operation+l.TrailOperation] += max(1, l.Times, l.TrailTimes)
		}
	}
	logged, recorded = make(map[string]int), make(map[string]int)
	s.log.mu.Lock()
	for _, text := range s.log.lines {
		count(logged, text)
	}
	s.log.mu.Unlock()
	find := exec.Command(bin+"/swpd", "audit", "find", "--config", filepath.Join(s.dir, "swpd.yaml"), "--outcome", "denied", "--json")
	find.Stderr = os.Stderr
	out, err := find.Output()
	for text := range strings.Lines(string(out)) {
		count(recorded, text)
	}
	return logged, recorded, err
}

// stores returns an exchange of a peer: a state of some octets that it puts.
func (s *stage) stores(who string, size int) func(ctx context.Context) error {
	return s.exchanges(who, "tls", func() ([]byte, string) {
		return append(putState(size), call("swp.echo", []byte("stored"))...), "stored"
	})
}
