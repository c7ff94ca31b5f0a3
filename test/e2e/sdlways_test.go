package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sdlEnvelope is a request to the agent of a partner, in clear.
func sdlEnvelope(id, ct, payload string) string {
	return `{"v":1,"id":"` + id + `","ts":"2026-01-01T00:00:00Z","type":"req",` +
		`"from":{"agent_id":"did:key:caller","name":"c","instance":"1","role":"caller"},` +
		`"to":{"agent_id":"did:web:b.example","name":"s","instance":"1","role":"server"},"cap":{},"ct":"` + ct + `",` +
		`"schema":{"kind":"embedded","id":"sha256:a2c799262a3ce3c19ef5cdd983bf3d12b43ab3c426227091b909dcb7054738c0","embedded":{"type":"object"}},` +
		`"payload":` + payload + `,"trace":{"root_id":"r","span_id":"` + id + `","hops":0}}`
}

const sdlPing = `{"tool":"sys.ping","call_id":"1","args":{},"expect":{}}`

// sdlStream is a connection to the socket of a swpd.
func (n *node) sdlStream(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("unix", filepath.Join(n.dir, "sdl.sock"), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

func sdlSend(t *testing.T, conn net.Conn, envelope string) {
	t.Helper()
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(envelope))), envelope...)); err != nil {
		t.Fatal(err)
	}
}

func sdlReceive(t *testing.T, conn net.Conn) string {
	t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(conn, body); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func (n *node) sdlPost(t *testing.T, envelope string) string {
	t.Helper()
	resp, err := http.Post(n.http+"/a2a", "application/json", bytes.NewReader([]byte(envelope))) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// Over SWP, HTTP and the socket an agent of a partner is reached, also after swpd was killed. The
// end of a task that was asked for over HTTP before the kill reaches its agent afterwards.
func TestSDLReachesAPartnerInThreeWaysAlsoAfterAKill(t *testing.T) {
	t.Parallel()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	a, b := prepared(t, "--name", "spiffe://a.example/swpd"), prepared(t, "--name", "spiffe://b.example/swpd")
	partner := func(name string, n *node, more string) string {
		return fmt.Sprintf("partners: {%s: {identity: spiffe://%s.example/swpd, trust: [%q]%s}}\n", name, name, filepath.Join(n.dir, "pki", "ca.crt"), more)
	}
	b.more = partner("a", a, "") + "sdl: {agent_id: did:web:b.example, tools: {allow: [sys.ping]}}\n"
	b.untilEnd(t)
	a.more = partner("b", b, fmt.Sprintf(", addresses: [%q]", b.tls)) + "http: {address: '127.0.0.1:0', anonymous: suite}\n" +
		"sdl: {socket: sdl.sock, routes: {'did:web:b.example': b}}\n"
	a.untilEnd(t)

	reached := func(when string) {
		t.Helper()
		out, err := a.client("sdl", "send", a.tls, "{}", "--tool", "sys.ping", "--from", "did:key:client", "--to", "did:web:b.example").CombinedOutput()
		if err != nil || !strings.Contains(string(out), `"pong":true`) {
			t.Errorf("%s, over SWP: %v\n%s", when, err, out)
		}
		if got := a.sdlPost(t, byAgent("poster", sdlEnvelope("post", "toolcall.v1", sdlPing))); !strings.Contains(got, `"pong":true`) {
			t.Errorf("%s, over HTTP: %s", when, got)
		}
		conn := a.sdlStream(t)
		sdlSend(t, conn, byAgent("streamer", sdlEnvelope("stream", "toolcall.v1", sdlPing)))
		if got := sdlReceive(t, conn); !strings.Contains(got, `"pong":true`) {
			t.Errorf("%s, over the socket: %s", when, got)
		}
	}
	reached("at first")
	const task = `{"kind":"task.v1","goal":"dig","inputs":{},"constraints":{"time_budget_s":3600,"compute_budget":"low","safety":{}},"deliverables":[],"acceptance":[],"context":{}}`
	accepted := func(id string) {
		t.Helper()
		if got := a.sdlPost(t, byAgent(id, sdlEnvelope(id, "task.v1", task))); !strings.Contains(got, `"accepted"`) {
			t.Fatalf("%s: %s", id, got)
		}
	}
	ended := func(id string) { // of a task, which fails, because b has no worker
		t.Helper()
		conn := a.sdlStream(t)
		sdlSend(t, conn, byAgent(id, sdlEnvelope("after "+id, "toolcall.v1", sdlPing)))
		for state := false; !state; {
			got := sdlReceive(t, conn)
			state = strings.Contains(got, `"parent_span_id":"`+id+`"`) && strings.Contains(got, `"failed"`)
		}
	}
	accepted("first")
	ended("first")
	accepted("second")
	a.kill(t)
	a.launch(t)
	reached("after the kill")
	ended("second")
}

// byAgent has an envelope be from an agent of a task. For the partner an agent_id belongs to one
// identity at a time.
func byAgent(id, envelope string) string {
	return strings.ReplaceAll(envelope, "did:key:caller", "did:key:"+id)
}
