package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Resident returns the resident memory of a process in octets, as
// /proc/PID/statm has it.
func Resident(pid int) (int64, error) {
	fields, err := procFields(pid, "statm", nil)
	if err != nil {
		return 0, err
	}
	pages, err := number(fields, 1)
	return pages * int64(os.Getpagesize()), err
}

// ResetPeak restarts the measurement of Peak at the current size of a process.
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// Peak returns the most resident memory that a process has had, in octets.
func Peak(pid int) (int64, error) {
	fields, err := procFields(pid, "status", []byte("VmHWM:"))
	if err != nil {
		return 0, err
	}
	kib, err := number(fields, 0)
	return kib << 10, err
}

// CPU returns the processor time that a process has used, in user and kernel mode, in
// nanoseconds as the scheduler counts it.
func CPU(pid int) (time.Duration, error) {
	// The clock of a process, as clock_getcpuclockid(3) makes it from an id.
	const sched = 2
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|sched, &used); err != nil {
		return 0, fmt.Errorf("proc: processor time of %d: %w", pid, err)
	}
	return time.Duration(used.Nano()), nil
}

// procFields returns the fields of a file of /proc/PID, those after the last
// occurrence of a separator.
func procFields(pid int, file string, after []byte) ([][]byte, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return nil, err
	}
	if i := bytes.LastIndex(raw, after); len(after) > 0 && i >= 0 {
		raw = raw[i+len(after):]
	}
	return bytes.Fields(raw), nil
}

func number(fields [][]byte, i int) (int64, error) {
	if i >= len(fields) {
		return 0, fmt.Errorf("proc: %d fields, want more than %d", len(fields), i)
	}
	return strconv.ParseInt(string(fields[i]), 10, 64)
}
