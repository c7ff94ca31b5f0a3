package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/disk/disktest"
)

// Who publishes while the disk is full is told so, and not to raise a limit; with room
// again the same delivery is taken.
func TestAFullDiskIsNotBlamedOnALimit(t *testing.T) {
	t.Parallel()
	n := prepared(t)
	data := filepath.Join(n.dir, "data")
	disktest.Small(t, data)
	n.untilEnd(t)
	ballast := disktest.Fill(t, data)
	payload := filepath.Join(t.TempDir(), "payload")
	sum := noise(t, payload, 300_000)
	publish := func(addr string) (string, error) {
		out, err := n.client("relay", "publish", addr, "orders", "@"+payload, "--id", "0a", "--patience", "8s").CombinedOutput()
		return string(out), err
	}
	for range 2 { // at first the store refuses, then the audit trail
		for name, addr := range n.transports() {
			said, err := publish(addr)
			if err == nil || !strings.Contains(said, "is full") {
				t.Errorf("%s: %v, %q, want words about a full volume", name, err, said)
			}
			for _, word := range []string{"relay.waiting", "relay.remembered", "quota", `\u000a`} {
				if strings.Contains(said, word) {
					t.Errorf("%s: %q in %s", name, word, said)
				}
			}
		}
		time.Sleep(time.Second)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; {
		said, err := publish(n.tls)
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("with room again: %v, %s", err, said)
		}
	}
	got := filepath.Join(t.TempDir(), "got")
	n.relay(t, "consume", n.quic, "orders", "--count", "1", "--exec", "cat >"+got).finish(t)
	if digest := digestOf(t, got); digest != sum {
		t.Errorf("digest %s, want %s", digest, sum)
	}
}
