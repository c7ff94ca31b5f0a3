package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// forking is the configuration of commands that ignore SIGTERM, start a process, and write
// its id to a file.
const forking = `mcp: {servers: {forking: {command: /bin/sh, args: ["-c", 'trap "" TERM; sleep 600 & echo $! > @DIR@/server.pid; wait']}}}
a2a: {workers: {forking: {command: /bin/sh, kinds: [fork], args: ["-c", 'trap "" TERM; sleep 600 & echo $! > @DIR@/worker.pid; wait']}}}
`

// The kernel ends the commands of a swpd that is killed, but not what they have started.
func TestGW11WhatCommandsHaveStartedEndsAtTheStartAfterAKill(t *testing.T) {
	t.Parallel()
	n := configured(t, forking)
	n.begin(t, "a2a", "send", n.tls, "--kind", "fork", "--detach")
	n.begin(t, "mcp", "call", n.tls+"/forking", "tools/list")
	var left []int
	for _, name := range []string{"worker.pid", "server.pid"} {
		left = append(left, pidIn(t, filepath.Join(n.dir, name)))
	}
	n.kill(t)
	for _, pid := range left {
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
		if !runs(pid) {
			t.Fatalf("process %d ended with swpd: there is nothing to test", pid)
		}
	}
	n.launch(t)
	for _, pid := range left {
		for deadline := time.Now().Add(time.Minute); runs(pid) && time.Now().Before(deadline); {
			time.Sleep(5 * time.Millisecond)
		}
		if runs(pid) {
			t.Errorf("process %d runs", pid)
		}
	}
}

// pidIn waits for a file with a process id.
func pidIn(t *testing.T, file string) int {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(file)
		if pid, bad := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && bad == nil {
			return pid
		}
	}
	t.Fatalf("no process id in %s", file)
	return 0
}

// runs reports whether a process runs.
func runs(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
