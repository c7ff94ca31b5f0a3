//go:build abuse

package abuse

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// shout is an MCP server that answers what it is asked with 100 MiB on stderr and a
// line of 64 MiB, and counts how often in a file.
const shout = `read -r line; echo >>"$LOG"; head -c 104857600 /dev/zero | tr '\0' x >&2; head -c 67108864 /dev/zero | tr '\0' x; echo; sleep 60`

// TestAbuseGW03 calls a server that writes without measure.
func TestAbuseGW03LoudServersAreBoundedInMemory(t *testing.T) {
	const calls = 3
	tries(t, func(t *testing.T, o *outcome) {
		log := filepath.Join(t.TempDir(), "log")
		v := startWith(t, fmt.Sprintf("mcp: {servers: {loud: {command: sh, args: [-c, %q], env: {LOG: %q}}}}\n", shout, log), nil)
		begin, peak := v.memory(), 0
		g := v.meanwhile(6 * time.Second)
		for range calls {
			began := time.Now()
			call := exec.Command(bin+"/swp-client", "--identity", filepath.Join(v.dir, "pki"), "mcp", "call", "swp+tls://"+v.tls+"/loud", "x")
			var said strings.Builder
			call.Stdout, call.Stderr = &said, &said
			if err := call.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- call.Wait() }()
			for over := false; !over; {
				select {
				case err := <-ended:
					o.must(err != nil, "a call of a server that answers nothing went well: %s", said.String())
					over = true
				case <-time.After(5 * time.Millisecond):
				}
				peak = max(peak, v.memory())
			}
			took := time.Since(began).Round(10 * time.Millisecond)
			o.say("told after %v: %s", took, strings.TrimSpace(said.String()))
			o.must(took <= 30*time.Second, "the caller is told after %v", took)
		}
		b, err := os.ReadFile(log)
		o.say("%d times 164 MiB, at the peak %+d MiB", len(b), (peak-begin)>>20)
		o.must(err == nil && len(b) > 1, "the server wrote %d times: %v", len(b), err)
		o.must(peak-begin <= resident, "I4: %d MiB more at the peak, want %d at most", (peak-begin)>>20, resident>>20)
		o.invariants(v, g.report(), begin)
	})
}
