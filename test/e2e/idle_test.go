package e2e

import (
	"strings"
	"testing"
	"time"
)

// Who waits for what seldom comes is still there when it does.
func TestCommandsThatWaitOutliveIdleTimes(t *testing.T) {
	t.Parallel()
	const idle = time.Second
	n := prepared(t)
	n.more = "limits: {idle: " + idle.String() + "}\n" + relayYAML
	n.untilEnd(t)
	gets := make(map[string]func(what string))
	for name, addr := range n.transports() {
		subscriber := n.begin(t, "events", "subscribe", addr, "--filter", "type:"+name, "--after", "0")
		consumer := n.begin(t, "relay", "consume", addr, name)
		worker := n.begin(t, "a2a", "worker", addr, "--agent", name, "--kind", name, "--", "sh", "-c", "cat >&2")
		worker.hears("connected to")
		send := func(args ...string) {
			t.Helper()
			if out, err := n.client(args...).CombinedOutput(); err != nil {
				t.Errorf("%q: %v, %s", args, err, out)
			}
		}
		gets[name] = func(what string) {
			t.Helper()
			send("events", "publish", addr, "--type", name, "--task", "0a", "--body", what)
			send("relay", "publish", addr, name, what)
			send("a2a", "send", addr, "--kind", name, "--input", what)
			for about, line := range map[string]string{"event": subscriber.read(1)[0], "delivery": consumer.read(1)[0]} {
				if !strings.HasSuffix(line, what) {
					t.Errorf("%s, %s: %q, want %q", name, about, line, what)
				}
			}
			worker.hears(what)
		}
	}
	for _, what := range []string{"first", "after-idle-times", "again"} {
		for _, get := range gets {
			get(what)
		}
		time.Sleep(4 * idle)
	}
}
