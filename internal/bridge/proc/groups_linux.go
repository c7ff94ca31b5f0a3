package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bootID identifies the present boot of the machine; empty if that is unknown.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// startOf returns when a process has started, in ticks since boot.
func startOf(pid int) (start uint64, ok bool) {
	_, start, ok = statOf(pid)
	return start, ok
}

// statOf returns the process group of a process, and when the process has started.
func statOf(pid int) (pgrp int, start uint64, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	// The name, in parentheses, may contain anything. State is the first field behind it,
	// pgrp the third, starttime the twentieth: proc(5).
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return 0, 0, false
	}
	pgrp, err1 := strconv.Atoi(fields[2])
	start, err2 := strconv.ParseUint(fields[19], 10, 64)
	return pgrp, start, err1 == nil && err2 == nil
}

// end kills what is left of a group; with an id of 0, all processes with its mark.
func (g *group) end(id int, ended func(pid int)) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && g.kill(id, pid) {
			ended(pid)
		}
	}
}

// kill kills a process if it belongs to the group.
func (g *group) kill(id, pid int) bool {
	if pgrp, _, ok := statOf(pid); !ok || id > 0 && pgrp != id {
		return false
	}
	fd, err := unix.PidfdOpen(pid, 0) // from here the process cannot be mistaken for a later one
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	return g.has(id, pid) && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}

// has reports whether a process belongs to the group.
func (g *group) has(id, pid int) bool {
	pgrp, start, ok := statOf(pid)
	if !ok || start < g.Start || id > 0 && (pgrp != id || pid == id && start != g.Start) {
		return false
	}
	for entry := range bytes.SplitSeq(environOf(pid), []byte{0}) {
		if string(entry) == markName+"="+g.Mark {
			return true
		}
	}
	return false
}

// executing bounds the wait for a process that is about to execute another program: until it
// does, it has no environment.
const executing = time.Second

// environOf returns the environment of a process; empty if there is none.
func environOf(pid int) []byte {
	for deadline := time.Now().Add(executing); ; time.Sleep(time.Millisecond) {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || len(environ) > 0 || time.Now().After(deadline) {
			return environ
		}
	}
}
