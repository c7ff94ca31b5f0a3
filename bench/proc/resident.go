package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Resident returns the resident memory of a process in octets, as
// /proc/PID/statm has it.
func Resident(pid int) (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(raw)
	if len(fields) < 2 {
		return 0, fmt.Errorf("proc: statm of %d: %q", pid, raw)
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0, err
	}
	return pages * int64(os.Getpagesize()), nil
}
