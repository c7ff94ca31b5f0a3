package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/effort"
)

// relayYAML has a relay that does not wait long.
const relayYAML = "relay: {backoff: 50ms, max_backoff: 200ms, ack_timeout: 10s, max_attempts: 5}\n"

// relayClient is a swp-client that publishes or consumes.
type relayClient struct {
	cmd   *exec.Cmd
	out   bytes.Buffer
	ended chan error
}

func (n *node) relay(t *testing.T, args ...string) *relayClient {
	t.Helper()
	x := &relayClient{cmd: n.client(append([]string{"relay"}, args...)...), ended: make(chan error, 1)}
	x.cmd.Stdout, x.cmd.Stderr = &x.out, &x.out
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.cmd.Process.Kill() })
	go func() { x.ended <- x.cmd.Wait() }()
	return x
}

func (x *relayClient) finish(t *testing.T) string {
	t.Helper()
	if err := <-x.ended; err != nil {
		t.Fatalf("it ended with %v: %s", err, x.out.String())
	}
	return x.out.String()
}

// appeared waits until a file holds a text. Another process writes it, so there is
// nothing to wait on but time.
func appeared(t *testing.T, file, text string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), text) {
			return
		}
	}
	t.Fatalf("%s never said %q", file, text)
}

// becomes waits until a delivery has a state: a consumer does not wait until the relay has
// stored its ACK.
func (n *node) becomes(t *testing.T, address, id, want string) {
	t.Helper()
	got := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got = n.relay(t, "status", address, id).finish(t); got == want {
			return
		}
	}
	t.Fatalf("delivery %s is %q, want %q", id, got, want)
}

// A delivery outlives its consumer, killed after it has it and before it is
// acknowledged, and its relay, killed after custody; another consumer gets it.
func TestADeliveryOutlivesItsConsumerAndItsRelay(t *testing.T) {
	t.Parallel()
	n := configured(t, relayYAML)
	for _, transport := range []string{"tls", "quic"} {
		t.Run(transport, func(t *testing.T) {
			address := n.transports()[transport]
			dir := t.TempDir()
			payload := filepath.Join(dir, "payload")
			sum := noise(t, payload, 300_000)
			topic, id := "kept."+transport, fmt.Sprintf("%x", transport)
			n.relay(t, "publish", address, topic, "@"+payload, "--id", id).finish(t)

			began := filepath.Join(dir, "began")
			stuck := n.relay(t, "consume", address, topic, "--exec", "echo $SWP_DELIVERY_ID >"+began+"; sleep 600")
			appeared(t, began, id)
			if got := n.relay(t, "status", address, id).finish(t); got != "queued attempt 1\n" {
				t.Errorf("while it is processed it is %q", got)
			}
			if err := stuck.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-stuck.ended
			n.kill(t)
			n.launch(t)
			address = n.transports()[transport]

			got := filepath.Join(dir, "got")
			n.relay(t, "consume", address, topic, "--count", "1", "--exec", "cat >"+got).finish(t)
			if digest := digestOf(t, got); digest != sum {
				t.Errorf("digest %s, want %s", digest, sum)
			}
			n.becomes(t, address, id, "acked attempt 2\n")
			again := n.relay(t, "--json", "publish", address, topic, "@"+payload, "--id", id).finish(t)
			if want := `{"delivery_id":"` + id + `","duplicate":true,"attempt_count":2}` + "\n"; again != want {
				t.Errorf("published again: %s, want %s", again, want)
			}
		})
	}
}

// A publisher and a consumer work on while the relay is killed between them:
// whatever was confirmed is processed, and in the end everything is.
func TestPublisherAndConsumerOutliveKillsOfTheRelay(t *testing.T) {
	t.Parallel()
	lines, kills := effort.Rounds(3000), 3
	n := configured(t, "relay: {backoff: 50ms, max_backoff: 200ms, ack_timeout: 2s, max_attempts: 100}\n")
	dir := t.TempDir()
	input, output := filepath.Join(dir, "input"), filepath.Join(dir, "output")
	var text strings.Builder
	for i := range lines {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	if err := os.WriteFile(input, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(output)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	consumer := n.client("relay", "consume", n.quic, "busy")
	consumer.Stdout = file
	var said bytes.Buffer
	consumer.Stderr = &said
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the consumer said:\n%s", said.String())
		}
	})
	if err := consumer.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = consumer.Process.Kill()
		_ = consumer.Wait()
	}()
	publisher := n.client("--json", "relay", "publish", n.tls, "busy", "--lines", "--wait", "--id", "b0")
	stdin, err := os.Open(input)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	var out, errs bytes.Buffer
	publisher.Stdin, publisher.Stdout, publisher.Stderr = stdin, &out, &errs
	t.Cleanup(func() {
		if t.Failed() {
			_ = publisher.Process.Kill()
			_ = publisher.Wait()
			t.Logf("the publisher said:\n%s%s", out.String(), errs.String())
		}
	})
	if err := publisher.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(3*time.Minute, func() { _ = publisher.Process.Kill() })
	defer stop.Stop()
	for i := range kills {
		appeared(t, output, fmt.Sprintf("line %d\n", (i+1)*lines/(2*kills+2)))
		n.kill(t)
		n.launch(t)
	}
	if err := publisher.Wait(); err != nil {
		t.Fatalf("the publisher ended with %v: %s%s", err, out.String(), errs.String())
	}
	var summary struct{ Confirmed, Duplicates, Processed int }
	if err := json.Unmarshal(out.Bytes(), &summary); err != nil || summary.Confirmed != lines || summary.Processed != lines {
		t.Errorf("summary %s, error %v", out.String(), err)
	}
	got, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]int)
	for line := range strings.Lines(string(got)) {
		seen[line]++
	}
	repeated := 0
	for line := range strings.Lines(text.String()) {
		if seen[line] == 0 {
			t.Errorf("%q was never processed", line)
		}
		repeated += max(0, seen[line]-1)
	}
	t.Logf("%d lines, %d kills: %d known when published again, %d processed again", lines, kills, summary.Duplicates, repeated)
}
