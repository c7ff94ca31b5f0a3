package e2e

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// printed runs the commands of a document one after the other, as they are printed, in a
// new directory and with ports that nobody else has: those of a network of their own. It
// returns the directory and the output of each. At the end the programs that the commands
// have left running stop in order.
func printed(t *testing.T, commands ...string) (dir string, outs []string) {
	t.Helper()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	alone := []string{"--user", "--map-root-user", "--net", "--"}
	if out, err := exec.Command("unshare", append(alone, "ip", "link", "set", "lo", "up")...).CombinedOutput(); err != nil {
		t.Skipf("there can be no network for one program here: %v %s", err, out)
	}
	const next = "\x00\n"
	script := "ip link set lo up\n" + strings.Join(commands, "\nprintf '\\0\\n'\n") +
		"\nprintf '\\0\\n'\nfor pid in $(jobs -p); do kill -TERM $pid; wait $pid; done\n"
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", append(alone, "bash", "-euo", "pipefail", "-c", script)...)
	cmd.Dir = t.TempDir()
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SWP") && !strings.HasPrefix(v, "PATH=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	outs = strings.Split(string(out), next)
	if err != nil {
		// What the commands have started runs on.
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		logs, _ := exec.Command("bash", "-c", "tail -n 30 "+cmd.Dir+"/*/log").CombinedOutput()
		t.Fatalf("command %d: %v\n%s\n%s", len(outs), err, out, logs)
	}
	return cmd.Dir, outs
}

func TestREADMERunsAsPrinted(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "In an empty directory, with `bin/` on the path:\n\n```sh\n")
	if !found {
		t.Fatal("README.md has no commands for an empty directory")
	}
	block, _, _ = strings.Cut(block, "\n```\n")
	dir, outs := printed(t, block)
	for _, line := range []string{
		`made edge/swpd\.yaml`, `addresses +swp\+tls://127\.0\.0\.1:7777`, `MCP server +calc`, `.*"sum":42.*`, `calc/add +.*`, `\{"build": 42\}.*`,
	} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).MatchString(outs[0]) {
			t.Errorf("nothing says %q:\n%s", line, outs[0])
		}
	}
	if got, err := os.ReadFile(dir + "/copy.txt"); err != nil || string(got) != "hello\n" {
		t.Errorf("copy.txt has %q, %v", got, err)
	}
}

// missing returns the first line of want that does not follow the lines before it in out,
// or "". In want … stands for any octets of a line, and a run of spaces for another one.
func missing(want, out string) string {
	for line := range strings.Lines(want) {
		pattern := regexp.QuoteMeta(strings.Join(strings.Fields(line), " "))
		pattern = strings.NewReplacer("…", ".*", " ", " +").Replace(pattern)
		at := regexp.MustCompile(`(?m)^` + pattern + ` *$`).FindStringIndex(out)
		if at == nil {
			return strings.TrimSpace(line)
		}
		out = out[at[1]:]
	}
	return ""
}

func TestTwoOrganisationsBecomePartnersAsPrinted(t *testing.T) {
	t.Parallel()
	const page = "../../docs/two-organisations.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var commands, wants []string
	for i, block := range regexp.MustCompile("(?ms)^```(sh|text)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		if kind := []string{"sh", "text"}[i%2]; block[1] != kind {
			t.Fatalf("%s: want a block of %s, commands and their output in turn:\n%s", page, kind, block[2])
		}
		if block[1] == "sh" {
			commands = append(commands, block[2])
		} else {
			wants = append(wants, block[2])
		}
	}
	if len(commands) < 5 || len(wants) != len(commands) {
		t.Fatalf("%s has %d blocks of commands and %d with their output", page, len(commands), len(wants))
	}
	_, outs := printed(t, commands...)
	for i, want := range wants {
		if line := missing(want, outs[i]); line != "" {
			t.Errorf("%s: nothing says %q:\n%s%s", page, line, commands[i], outs[i])
		}
	}
}

func TestMissingLinesAreFound(t *testing.T) {
	const out = "made a\nstate   ready, for 1s\nsum 42\n"
	for want, line := range map[string]string{
		"made a\nstate ready…\nsum 42\n": "", "state …1s\n": "", "sum 42\nmade a\n": "made a", "sum 4\n": "sum 4", "state ready\n": "state ready", "made .\n": "made .",
	} {
		if got := missing(want, out); got != line {
			t.Errorf("%q: %q, want %q", want, got, line)
		}
	}
}
