package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
)

// secretMark is in each name, id and text of a caller, of a partner's tool and of a stranger's answer.
const secretMark = "zz-secret"

// echoing answers each HTTP request with what it was asked in place of HTTP, so that errors quote it.
func echoing(t *testing.T) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 %s-status\r\n\r\n", secretMark)
			}()
		}
	}()
	return "http://" + ln.Addr().String()
}

// secretRules have names of callers, and secretPins one of a tool.
const (
	secretRules = "access: {deny: ['spiffe://people.example/zz-secret-denied'], rules: [{identity: 'spiffe://a.example/**'}, {identity: 'spiffe://b.example/**'}," +
		" {identity: 'spiffe://people.example/zz-secret-agent'}, {identity: 'http:zz-secret-caller'}], agents: [{identity: '**', agent_ids: '**'}]}\n"
	secretHTTP = "http: {address: '127.0.0.1:0', callers: {zz-secret-caller: {tokens: [8766b9cb08e6040b704f1e3ee1e186efccf2635b1d2634d6525333007e6aeae1]}}}\n"
)

// What everybody of the machine reads has no names of callers, no ids and no data: work of each profile, refusals
// and failures at each place change nothing. The names of partners, servers, agents and back ends in the
// configuration are the operator's, and stay.
func TestOP30OpenPathsSayNothingOfCallers(t *testing.T) {
	t.Parallel()
	strange := echoing(t)
	a, b := pairOf(t, 0, secretRules+secretHTTP+modernYAML(t)+"rpc: {backends: {desk: {url: '"+strange+"', methods: [zz-secret-method]}}}\n"+
		"a2a: {agents: {far: {url: '"+strange+"', binding: rest}}}\n"+
		"relay: {backoff: 10ms, waiting: 1}\n", ruleAll+"relay: {waiting: 1}\n"+modernYAML(t))
	p := newPeople(t)
	p.admit(a)
	ctx := t.Context()
	agent := p.dial(a, 0, "spiffe://people.example/zz-secret-agent")
	other := p.dial(a, 1, "spiffe://people.example/zz-secret-other")
	if s, err := dialWith(t, a.addrs[0], p.write(a, "spiffe://people.example/zz-secret-denied")); err == nil && echo(t, s) == nil {
		t.Error("who is denied is served")
	}
	a.agent("zz-secret-worker", func(_ context.Context, task *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
		return nil, errors.New("zz-secret-reason " + task.Kind)
	}, "zz-secret-kind")
	name := func(what string, n int) string { return fmt.Sprintf("%s-%s-%d", secretMark, what, n) }
	for _, s := range []*session{agent, other} {
		for n := range 3 {
			for _, at := range []string{"", "b/"} {
				_, _ = rpc.Call(ctx, s.Session, at+"zz-secret-method", []byte(name("params", n)))
				_, _ = rpc.Call(ctx, s.Session, at+name("method", n), nil)
				for _, target := range []string{"modern", name("server", n)} {
					_, _ = s.askIn(ctx, mcpmap.Call{Target: at + target, Octets: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, name("id", n), name("tool", n))})
				}
				for _, kind := range []string{"zz-secret-kind", name("kind", n), "a2a/1.0/SendMessage"} {
					task, to := &a2a.Task{ID: []byte(name("task"+kind[:3], n)), Kind: at + kind, Input: []byte(`{"id":"` + name("id", n) + `"}`)}, a2a.SendOptions{}
					if strings.HasPrefix(kind, "a2a/") {
						task.Kind, to.Agent = kind, at+"far"
					}
					d, err := s.tasks.Send(ctx, s.Session, task, to)
					for err == nil && (at == "" || to.Agent != "") && kind != name("kind", n) { // other ones wait for a worker
						_, err = d.Recv(ctx)
					}
				}
				octets, sum := octetsOf(10)
				u := artifact.Upload{ArtifactID: at + name("artifact", n), Size: 10, Hash: sum, Octets: bytes.NewReader(octets), Sync: syncPlain}
				_ = u.Send(ctx, s.Session)
				sum[0]++
				u = artifact.Upload{ArtifactID: at + name("wrong", n), Size: 10, Hash: sum, Octets: bytes.NewReader(octets), Sync: syncPlain}
				_ = u.Send(ctx, s.Session)
				_ = publishes(t, s.Session, record(at+name("event", n), at+name("type", n), name("body", n)))
				if sub, err := events.Open(ctx, s.Session, events.SubscribeOptions{Filter: "type:" + at + name("type", n), Name: name("stream", n)}); err == nil {
					sub.Close()
				}
			}
		}
	}
	relays, on := relayPeer(t, a.running, a.addrs[0])
	for _, topic := range []string{"zz-secret-topic", "b/zz-secret-topic", "later/zz-secret-topic"} {
		for n := range 3 {
			_, _ = relay.Send(ctx, on, &relay.Publication{ID: []byte(name(topic, n)), Topic: topic, Payload: []byte(name("payload", n))})
		}
	}
	if d, err := consumes(t, a, on, relays, "zz-secret-topic", 1).Recv(ctx); err != nil || d.Nack(false, "zz-secret-reason") != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/mcp/modern", "/mcp/zz-secret-server", "/a2a/far/tasks/zz-secret-task", "/a2a/b/zz-secret-agent/message:send", "/zz-secret-path"} {
		post(t, a.front()+path, `{"jsonrpc":"2.0","id":"zz-secret-id","method":"tools/call","params":{"name":"zz-secret-tool"}}`, version, "Authorization: Bearer secret-a", "Mcp-Session-Id: zz-secret-session")
		fetch(t, a.front()+path)
	}
	a.until("a topic that the partner does not accept", func() bool { return a.link("b").Queue.Held != nil })

	// A partner whose name begins stored names, and a file with a fault that quotes a caller.
	a.trusting("later", open(t, "c", ""), "swp+tls://127.0.0.1:1")
	a.rewrite("identity: 'http:zz-secret-caller'}", "identity: 'http:zz-secret-caller', operation: 'zz-secret-wrong', profile: zz-secret-profile}")
	a.reloaded()

	_, status := a.get("/status")
	for _, want := range []string{
		"accepts no deliveries of a topic now: b/zz-secret-topic", "captures local names", "zz-secret-profile", "rpc backend desk: a call failed: ", "zz-secret-status", "a2a agent far: a request failed: ",
	} {
		if !strings.Contains(status, want) {
			t.Errorf("who may read everything is not told %q: %s", want, status)
		}
	}
	_, ready := a.get("/readyz")
	for _, want := range []string{"accepts no deliveries of a topic now\n", "captures local names", "not reloaded", "rpc backend desk: a call failed\n", "a2a agent far: a request failed\n"} {
		if !strings.Contains(ready, want) {
			t.Errorf("/readyz does not say %q: %s", want, ready)
		}
	}
	says := func(o *organisation, when string) {
		t.Helper()
		for _, path := range []string{"/livez", "/readyz", "/readyz?verbose", "/readyz?format=json", "/metrics", "/metrics?name[]=zz"} {
			if _, text := o.get(path); strings.Contains(text, secretMark) || strings.Contains(text, "people.example") {
				for line := range strings.Lines(text) {
					if strings.Contains(line, secretMark) || strings.Contains(line, "people.example") {
						t.Errorf("%s, %s: %s of %s", when, path, line, o.name)
					}
				}
			}
		}
	}
	says(a, "at work")
	says(b, "at work")
	agent.Close(profiles.OK)
	b.end()
	a.until("the partner is away", func() bool { return !a.up("b") })
	says(a, "with a partner away")
}
