package command

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon/devpki"
)

// invoke runs a command line in this process, without what the user of this machine has.
func invoke(t *testing.T, args ...string) (code int, stderr string) {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	var errs bytes.Buffer
	code = Main("v1.2.3", args, strings.NewReader(""), io.Discard, &errs)
	return code, errs.String()
}

// commands returns the usage lines of all commands that run.
func commands() map[string][]string {
	p := cli.Program{Root: newRoot(new(flags))}
	lines := make(map[string][]string)
	p.Walk(func(cmd *cobra.Command) {
		if cmd.Runnable() {
			lines[cmd.CommandPath()] = strings.Fields(cmd.Use)[1:]
		}
	})
	return lines
}

// withAddress is a whole command line of a usage line, with an address in its place;
// kind is how the usage line calls the address, empty if there is none.
func withAddress(path string, usage []string, address string) (args []string, kind string) {
	args = strings.Fields(path)[1:]
	for i, word := range usage {
		switch name := strings.TrimSuffix(word, "..."); {
		case strings.HasPrefix(strings.TrimPrefix(name, "["), addrPlain):
			args, kind = append(args, address), name
		case strings.HasPrefix(name, "[") || i > 0 && strings.HasPrefix(usage[i-1], "[-"):
		case strings.HasPrefix(name, "--"):
			args = append(args, name)
		default:
			args = append(args, "00")
		}
	}
	return args, kind
}

// Nothing listens at port 1: a command that dialled would exit with 1.
func TestEveryCommandRefusesAnAddressThatItCannotUse(t *testing.T) {
	known, plainOnes, partnerOnes := usageArguments(), 0, 0
	for path, usage := range commands() {
		args, kind := withAddress(path, usage, "swp+tls://127.0.0.1:1/beta")
		if kind == "" {
			continue
		}
		t.Run(path, func(t *testing.T) {
			if _, ok := known[strings.Trim(kind, "[]")]; !ok && known[kind].Check == nil && kind != addrNew {
				t.Fatalf("%s: nothing says what %s may carry", path, kind)
			}
			if kind == addrPlain {
				plainOnes++
				code, stderr := invoke(t, args...)
				if code != cli.ExitUsage || !strings.Contains(stderr, `cannot pass "beta" on`) || !strings.Contains(stderr, "Leave /beta out") {
					t.Errorf("%q: exit %d: %s", args, code, stderr)
				}
			}
			if kind == addrPartner {
				partnerOnes++
				if code, stderr := invoke(t, args...); code == cli.ExitUsage && strings.Contains(stderr, "address") {
					t.Errorf("%q: exit %d: %s", args, code, stderr)
				}
			}
			for _, address := range []string{"swp+tls://127.0.0.1:1/", "swp+tls://127.0.0.1:1/a//b", "swp+tls://127.0.0.1:1?x=1"} {
				args, _ := withAddress(path, usage, address)
				if code, stderr := invoke(t, args...); code != cli.ExitUsage || !strings.Contains(stderr, "address") {
					t.Errorf("%q: exit %d: %s", args, code, stderr)
				}
			}
		})
	}
	if plainOnes < 10 || partnerOnes < 20 {
		t.Errorf("%d commands take the address of an endpoint alone, %d one with a partner", plainOnes, partnerOnes)
	}
}

func TestNothingInAnAddressIsIgnored(t *testing.T) {
	for _, address := range []string{
		"swp+tls://h:1/", "swp+tls://h:1//a", "swp+tls://h:1/a/", "swp+tls://h:1/a//b",
		"swp+tls://h:1/..", "swp+tls://h:1/a/../b", "swp+tls://h:1/./a", "swp+tls://h:1/a\n",
		"swp+tls://h:1?x=1", "swp+tls://h:1?", "swp+tls://h:1/a?x=1", "swp+tls://h:1#b", "swp+tls://h:1/a#b", "swp+tls://h:1/a%2Fb",
		"swp+tls://me@h:1", "swp+tls://me:secret@h:1/a", "h:1", "h:1/a", "https://h:1/a", "",
	} {
		_, _, err := split(address)
		if _, ok := errors.AsType[cli.UsageError](err); !ok || !strings.Contains(err.Error(), "address") {
			t.Errorf("%q: %v", address, err)
		}
	}
	for address, want := range map[string]string{
		"swp+tls://h": "", "swp+quic://[::1]:1": "", "swp+tls://h:1/files": "files", "swp+tls://h/acme/files": "acme/files", "swp+tls://h:1/did:web:a.b": "did:web:a.b",
	} {
		if _, target, err := split(address); err != nil || target != want {
			t.Errorf("%q: %q, %v; want %q", address, target, err, want)
		}
	}
}

func TestFlagsWithoutEffectAreRefused(t *testing.T) {
	const tls, tcp = "swp+tls://127.0.0.1:1", "swp+tcp://127.0.0.1:1"
	pki := t.TempDir()
	if err := devpki.Create(pki, devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SWP_IDENTITY", pki)
	own := devpki.Client(pki)
	for says, lines := range map[string][][]string{
		"no effect": {
			{"dump", "-", "--identity", "pki"},
			{"--timeout", "1s", "slip", "ucr"},
			{"a2a", "list", "--expect", "spiffe://a/b"},
			{"version", "--verbose"},
			{"bench", tls, "--policy", "region=eu"},
			{"--traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "bench", tls},
			{"--chain", "00", "bench", tls},
			{"--policy", "region=eu", "a2a", "worker", tls, "--agent", "a", "--kind", "k", "--", "true"},
			{"ping", tcp, "--identity", "pki"},
			{"ping", tcp, "--expect", "spiffe://a/b"},
			{"--cert", own.Cert, "--key", own.Key, "--ca", own.CA, "--identity", "pki", "ping", tls},
			{"bench", tcp, "--keep-stream"},
		},
		"needs --sign":       {{"sdl", "seal", "{}", "--form", "json"}},
		"a duration above 0": {{"ping", tcp, "--timeout", "0s"}},
		"keep one": {
			{"artifact", "get", tls, "x", "y", "--unverified", "--sha256", strings.Repeat("00", 32)},
			{"mcp", "list", tls + "/a", "--server", "b"},
			{"a2a", "send", tls + "/a", "--kind", "k", "--agent", "b"},
		},
	} {
		for _, line := range lines {
			t.Run(strings.Join(line, " "), func(t *testing.T) {
				code, stderr := invoke(t, line...)
				if code != cli.ExitUsage || !strings.Contains(stderr, says) {
					t.Errorf("exit %d, want %d and %q: %s", code, cli.ExitUsage, says, stderr)
				}
			})
		}
	}
}

func TestEveryCommandHasExamples(t *testing.T) {
	p := cli.Program{Root: newRoot(new(flags))}
	p.Walk(func(cmd *cobra.Command) {
		if cmd.Name() != "help" && !strings.Contains(cmd.CommandPath(), " completion") && cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
	})
}
