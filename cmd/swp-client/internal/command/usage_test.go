package command

import (
	"strings"
	"testing"

	"github.com/slimwire/swp/cmd/internal/cli"
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
