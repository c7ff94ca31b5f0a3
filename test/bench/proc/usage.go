package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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

// Machine is the processor time of the whole machine, and of this process and its running
// descendants, up to a moment.
type Machine struct{ all, own time.Duration }

// tick is the unit of /proc/stat.
const tick = 10 * time.Millisecond

// Now returns the processor time so far. Time that the host of a virtual machine has taken
// counts as used.
func Now() (Machine, error) {
	var m Machine
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return m, err
	}
	line, _, _ := bytes.Cut(raw, []byte("\n"))
	fields := bytes.Fields(line)
	for _, i := range []int{1, 2, 3, 6, 7, 8} { // user, nice, system, irq, softirq, steal
		n, err := number(fields, i)
		if err != nil {
			return m, err
		}
		m.all += time.Duration(n) * tick
	}
	m.own, err = family(os.Getpid())
	return m, err
}

// family returns the processor time of a process and its descendants.
func family(pid int) (time.Duration, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	children := make(map[int64][]int)
	for _, stat := range stats {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if err != nil {
			return 0, err
		}
		fields, err := procFields(child, "stat", []byte(")"))
		if err != nil {
			continue // it has ended
		}
		if parent, err := number(fields, 1); err == nil {
			children[parent] = append(children[parent], child)
		}
	}
	var used time.Duration
	for left := []int{pid}; len(left) > 0; left = left[1:] {
		if more, err := CPU(left[0]); err == nil { // else it has ended
			used += more
		}
		left = append(left, children[int64(left[0])]...)
	}
	return used, nil
}

// Others returns the part of all processors that other programs have taken since an earlier
// moment, from 0 to 1.
func (m Machine) Others(since Machine, took time.Duration) float64 {
	others := (m.all - since.all) - (m.own - since.own)
	return max(0, float64(others)/float64(took)/float64(runtime.NumCPU()))
}
