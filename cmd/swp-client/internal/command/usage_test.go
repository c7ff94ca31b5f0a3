package command

import (
	"os"
	"strings"
	"testing"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon/devpki"
)

func TestAMistypedFlagNamesThoseThatAreLikeIt(t *testing.T) {
	for _, c := range []struct {
		line, want string
	}{
		{"ping --timeot 1s swp+tls://127.0.0.1:1", "unknown flag: --timeot; did you mean --timeout?"},
		{"ping --jsn swp+tls://127.0.0.1:1", "did you mean --json?"},
		{"ping --nothing-like-it swp+tls://127.0.0.1:1", "unknown flag: --nothing-like-it\n"},
	} {
		code, stderr := invoke(t, strings.Fields(c.line)...)
		if code != cli.ExitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, %q; want %d and %q", c.line, code, stderr, cli.ExitUsage, c.want)
		}
	}
}

func TestAPrivateKeyThatEveryUserCanReadIsNamed(t *testing.T) {
	dir := t.TempDir()
	if err := devpki.Create(dir, devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	key := devpki.Client(dir).Key
	for mode, want := range map[os.FileMode]int{0o600: 0, 0o640: 0, 0o644: 1, 0o604: 1} {
		if err := os.Chmod(key, mode); err != nil {
			t.Fatal(err)
		}
		_, stderr := invoke(t, "ping", "--identity", dir, "swp+tls://127.0.0.1:1")
		if n := strings.Count(stderr, "run: chmod 600 "+key); n != want {
			t.Errorf("mode %04o: told %d times, want %d: %q", mode, n, want, stderr)
		}
	}
}
