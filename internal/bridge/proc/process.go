package proc

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

// drainTime is how long the output of a dead process is still read when
// somebody it left behind holds the pipe open.
const drainTime = time.Second

// Process is one process and our ends of its standard streams.
type Process struct {
	Stdin, Stdout, Stderr *os.File

	cmd    *exec.Cmd
	groups *Groups
}

// PID is the id of the process, and of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Wait waits until the process has ended; once stop is closed it has it end: its
// standard input is closed, the group gets SIGTERM, and SIGKILL after what grace
// returns then. A grace of zero skips SIGTERM. Whatever is left of the group is
// killed, and reading its output ends within a second.
//
// Wait must be called once. The error is how the process ended: nil for exit
// status 0, else an *exec.ExitError.
func (p *Process) Wait(stop <-chan struct{}, grace func() time.Duration) error {
	reaped := make(chan error, 1)
	go func() { reaped <- reap(p.cmd) }()
	var err error
	select {
	case err = <-reaped:
	case <-stop:
		_ = p.Stdin.Close()
		err = p.end(reaped, grace())
	}
	p.groups.forget(p.PID())
	// Who left the group may hold the pipes open for good.
	deadline := time.Now().Add(drainTime)
	_ = p.Stdout.SetReadDeadline(deadline)
	_ = p.Stderr.SetReadDeadline(deadline)
	_ = p.Stdin.Close()
	return err
}

func (p *Process) end(reaped <-chan error, grace time.Duration) error {
	if grace > 0 {
		p.signal(syscall.SIGTERM)
		patience := time.NewTimer(grace)
		defer patience.Stop()
		select {
		case err := <-reaped:
			return err
		case <-patience.C:
		}
	}
	p.signal(syscall.SIGKILL)
	return <-reaped
}

// signal signals the group. Until the process is reaped the group is its own.
func (p *Process) signal(sig syscall.Signal) { _ = syscall.Kill(-p.PID(), sig) }

// Close closes our ends of the pipes.
func (p *Process) Close() {
	_ = p.Stdin.Close()
	_ = p.Stdout.Close()
	_ = p.Stderr.Close()
}
