package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// `sdl send --follow` and `sdl listen` over each way, with swpd killed while the tasks run: both
// get the end of their task from the swpd that comes after.
func TestSDLIsFollowedAndListenedToInEachWayAcrossAKill(t *testing.T) {
	t.Parallel()
	n := prepared(t)
	n.more = "http: {address: '127.0.0.1:0', anonymous: suite}\n" +
		"sdl: {agent_id: did:web:server.example, socket: sdl.sock, tools: {allow: [sys.ping]}}\n"
	n.untilEnd(t)
	n.more = strings.Replace(n.more, "127.0.0.1:0", strings.TrimPrefix(n.http, "http://"), 1) // also after the kill
	digs := n.begin(t, "a2a", "worker", n.tls, "--agent", "digger", "--kind", "sdl/task.v1", "--tasks", "16", "--", "sh", "-c",
		`while [ ! -e "$DIR/go" ]; do sleep 0.05; done; echo '{"output":"dug"}'`)
	digs.hears("connected to")
	const (
		server = "did:web:server.example"
		task   = `{"kind":"task.v1","goal":"dig","inputs":{},"constraints":{"time_budget_s":3600,"compute_budget":"low","safety":{}},"deliverables":[],"acceptance":[],"context":{}}`
	)
	type pair struct {
		way              string
		follows, listens *program
	}
	var pairs []pair
	for way, address := range map[string]string{
		"swp": n.tls, "http": n.http, "websocket": "ws" + strings.TrimPrefix(n.http, "http"), "socket": "unix:" + filepath.Join(n.dir, "sdl.sock"),
	} {
		out, err := n.client("sdl", "send", address, "{}", "--tool", "sys.ping", "--from", "did:key:pings-"+way, "--to", server).CombinedOutput()
		if err != nil || !strings.Contains(string(out), `"pong":true`) {
			t.Fatalf("%s: %v\n%s", way, err, out)
		}
		listen := []string{"sdl", "listen", address, "did:key:listens-" + way}
		if way != "swp" {
			listen = append(listen, "--to", server)
		}
		p := pair{way, n.begin(t, "sdl", "send", address, task, "--ct", "task.v1", "--from", "did:key:follows-"+way, "--to", server, "--follow"), n.begin(t, listen...)}
		if lines := p.follows.read(2); !strings.Contains(lines[0], `"accepted"`) || !strings.Contains(lines[1], `"working"`) {
			t.Errorf("%s: %q", way, lines)
		}
		p.listens.hears("agent did:key:listens-" + way)
		out, err = n.client("sdl", "send", address, task, "--ct", "task.v1", "--from", "did:key:listens-"+way, "--to", server).CombinedOutput()
		if err != nil || !strings.Contains(string(out), `"accepted"`) {
			t.Fatalf("%s: %v\n%s", way, err, out)
		}
		if lines := p.listens.read(1); !strings.Contains(lines[0], `"working"`) {
			t.Errorf("%s: %q", way, lines)
		}
		pairs = append(pairs, p)
	}
	n.kill(t)
	for _, p := range pairs {
		p.follows.hears("again in")
		p.listens.hears("again in")
	}
	n.launch(t)
	if err := os.WriteFile(filepath.Join(n.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range pairs {
		lines, code := p.follows.wait()
		if len(lines) == 0 || !strings.Contains(lines[len(lines)-1], `"completed"`) || !strings.Contains(lines[len(lines)-1], "dug") || code != 0 {
			t.Errorf("%s: %q, exit code %d", p.way, lines, code)
		}
		for done := false; !done; {
			done = strings.Contains(p.listens.read(1)[0], `"completed"`)
		}
	}
}
