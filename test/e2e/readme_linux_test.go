package e2e

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The commands of README.md run as they are printed, in an empty directory, with ports
// that nobody else has: those of a network of their own.
func TestREADMERunsAsPrinted(t *testing.T) {
	t.Parallel()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	alone := []string{"--user", "--map-root-user", "--net", "--"}
	if out, err := exec.Command("unshare", append(alone, "ip", "link", "set", "lo", "up")...).CombinedOutput(); err != nil {
		t.Skipf("there can be no network for one program here: %v %s", err, out)
	}
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "In an empty directory, with `bin/` on the path:\n\n```sh\n")
	if !found {
		t.Fatal("README.md has no commands for an empty directory")
	}
	block, _, _ = strings.Cut(block, "\n```\n")
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", append(alone, "bash", "-euc", "ip link set lo up\n"+block+"\nkill -TERM %1\nwait %1")...)
	cmd.Dir = t.TempDir()
	cmd.WaitDelay = time.Second
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SWP") && !strings.HasPrefix(v, "PATH=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		log, _ := os.ReadFile(cmd.Dir + "/edge/log")
		t.Fatalf("%v\n%s\n%s", err, out, log)
	}
	for _, line := range []string{
		`made edge/swpd\.yaml`, `addresses +swp\+tls://127\.0\.0\.1:7777`, `MCP server +calc`, `.*"sum":42.*`, `calc/add +.*`, `\{"build": 42\}.*`,
	} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).Match(out) {
			t.Errorf("nothing says %q:\n%s", line, out)
		}
	}
	if got, err := os.ReadFile(cmd.Dir + "/copy.txt"); err != nil || string(got) != "hello\n" {
		t.Errorf("copy.txt has %q, %v", got, err)
	}
}
