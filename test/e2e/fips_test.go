package e2e

import (
	"crypto/tls"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/bridge/mcptest"
)

// fips allows a program the algorithms of FIPS 140-3 only: any other use is an error.
const fips = "GODEBUG=fips140=only"

// The link between two swpd, and requests over it, need no other algorithm. What falls away
// is in docs/tls.md.
func TestTL27TheLinkOfTwoEndpointsUnderFIPS140(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, transport := range []string{"tls", "quic"} {
		t.Run(transport, func(t *testing.T) {
			a := rowIn(t, []string{fips}, transport, "mcp: {servers: {tool: {command: \""+self+"\", args: ["+scripted+", modern]}}}\n", "a", "b")
			c := call(t, a.http+"/mcp/b/tool", "modern")
			if answer := all(t, c.post(strings.ReplaceAll(mcptest.Requests["id 1.0"], "%s", c.mark()), "hex")); !strings.Contains(answer, `"result"`) {
				t.Errorf("answer %s", answer)
			}
			pair, err := tls.LoadX509KeyPair(filepath.Join(a.dir, "pki", "client.crt"), filepath.Join(a.dir, "pki", "client.key"))
			if err != nil {
				t.Fatal(err)
			}
			for offered, want := range map[tls.CurveID]bool{tls.X25519MLKEM768: true, tls.CurveP256: true, tls.X25519: false} {
				config := trusting(t, a, pair)
				config.CurvePreferences = []tls.CurveID{offered}
				conn, err := tls.Dial("tcp", strings.TrimPrefix(a.tls, "swp+tls://"), config)
				if (err == nil) != want {
					t.Errorf("key exchange %v: %v, accepted %v is expected", offered, err, want)
				}
				if err == nil {
					_ = conn.Close()
				}
			}
		})
	}
}

// Keys for encryption of A2A-SDL are X25519. They are refused with an error and no panic.
func TestTL27EncryptionOfSDLFallsAwayUnderFIPS140(t *testing.T) {
	t.Parallel()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	keygen := func(env ...string) (string, error) {
		for {
			cmd := exec.Command(bin+"/swp-client", "sdl", "keygen", "--agent", "did:key:a", filepath.Join(t.TempDir(), "keys"))
			cmd.Env = append(os.Environ(), env...)
			if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), noEntropy) {
				return string(out), err
			}
		}
	}
	if out, err := keygen(); err != nil {
		t.Errorf("without the mode: %v, %s", err, out)
	}
	if out, err := keygen(fips); err == nil || !strings.Contains(out, "FIPS 140-only mode") || strings.Contains(out, "goroutine") {
		t.Errorf("in the mode: %v, %s", err, out)
	}
}
