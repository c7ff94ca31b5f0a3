package proc

import (
	"context"
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

	Node    string          // where it runs; empty: here
	Leaving context.Context // ends when that node is about to end: the process should get nothing new

	body  body
	ended func() // of Place; may be nil
}

// body is what runs.
type body interface {
	pid() int

	// reap returns when nothing is left of the process, with how it ended.
	reap() error

	// end has the process end, and returns what reap has returned.
	end(reaped <-chan error, grace time.Duration) error
}

// PID is the id of the process, and of its group, at the node where it runs.
func (p *Process) PID() int { return p.body.pid() }

// Wait waits until the process has ended; once stop is closed it has it end: its
// standard input is closed, the group gets SIGTERM, and SIGKILL after what grace
// returns then. A grace of zero skips SIGTERM. Whatever is left of the group is
// killed, and reading its output ends within a second.
//
// Wait must be called once. The error is how the process ended: nil for exit
// status 0, else an *exec.ExitError. Of a process at another node it is an error with
// the same text, or says that the link is lost: then that node ends the process.
func (p *Process) Wait(stop <-chan struct{}, grace func() time.Duration) error {
	reaped := make(chan error, 1)
	go func() { reaped <- p.body.reap() }()
	var err error
	select {
	case err = <-reaped:
	case <-stop:
		_ = p.Stdin.Close()
		err = p.body.end(reaped, grace())
	}
	// Who left the group may hold the pipes open for good.
	deadline := time.Now().Add(drainTime)
	_ = p.Stdout.SetReadDeadline(deadline)
	_ = p.Stderr.SetReadDeadline(deadline)
	_ = p.Stdin.Close()
	if p.ended != nil {
		p.ended()
	}
	return err
}

// local is a process of this node.
type local struct {
	cmd    *exec.Cmd
	groups *Groups
}

func (l local) pid() int { return l.cmd.Process.Pid }

func (l local) reap() error {
	err := reap(l.cmd)
	l.groups.forget(l.pid())
	return err
}

func (l local) end(reaped <-chan error, grace time.Duration) error {
	if grace > 0 {
		l.signal(syscall.SIGTERM)
		patience := time.NewTimer(grace)
		defer patience.Stop()
		select {
		case err := <-reaped:
			return err
		case <-patience.C:
		}
	}
	l.signal(syscall.SIGKILL)
	return <-reaped
}

// signal signals the group. Until the process is reaped the group is its own.
func (l local) signal(sig syscall.Signal) { _ = syscall.Kill(-l.pid(), sig) }

// Close closes our ends of the pipes.
func (p *Process) Close() {
	_ = p.Stdin.Close()
	_ = p.Stdout.Close()
	_ = p.Stderr.Close()
}
