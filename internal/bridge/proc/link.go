package proc

import (
	"context"
	"io"
	"os"
	"sync"
	"time"
)

// Link is a process that another node has started for this one. Reads and writes of its streams
// fail after Close.
type Link struct {
	Node    string          // where the process runs
	PID     int             // its id there
	Leaving context.Context // ends when the node is about to end

	Streams Duplex    // its standard input and its standard output
	Errors  io.Reader // its standard error

	// Stop asks the node to end the process as Process.Wait does. It does not wait.
	Stop func(grace time.Duration)

	// Wait returns when the process has ended and its output has been sent. The error is how the
	// process ended, as of Process.Wait, or says that the link is lost.
	Wait func() error

	// Close ends the link, and the node ends a process that still runs. It does not wait for that.
	Close func()
}

// Duplex is a stream in both directions.
type Duplex interface {
	io.ReadWriter
	CloseWrite() error
}

// linkTime is how much longer than its grace a process at another node may take to end.
const linkTime = 2 * drainTime

// join returns the process at the other end of a link, with pipes of this node.
func (l *Link) join(streams *pipes, ended func()) *Process {
	a := &away{Link: l, pipes: streams}
	a.input.Go(func() {
		_, _ = io.Copy(l.Streams, a.in.r)
		_ = l.Streams.CloseWrite()
		_ = a.in.r.Close() // nobody reads any more
	})
	a.output.Go(func() { fill(a.out.w, l.Streams) })
	a.output.Go(func() { fill(a.errs.w, l.Errors) })
	return &Process{Stdin: a.in.w, Stdout: a.out.r, Stderr: a.errs.r, Node: l.Node, Leaving: l.Leaving, body: a, ended: ended}
}

// fill copies into a pipe until the end of from. The rest is discarded when nobody reads the pipe.
func fill(w *os.File, from io.Reader) {
	_, err := io.Copy(w, from)
	_ = w.Close()
	if err != nil {
		_, _ = io.Copy(io.Discard, from)
	}
}

// away is a process at another node.
type away struct {
	*Link
	*pipes
	input, output sync.WaitGroup
}

func (a *away) pid() int { return a.PID }

func (a *away) reap() error {
	err := a.Wait()
	a.output.Wait()
	a.Close()
	_ = a.in.r.Close()
	a.input.Wait()
	return err
}

func (a *away) end(reaped <-chan error, grace time.Duration) error {
	a.Stop(grace)
	late := time.Now()
	if grace > 0 {
		late = late.Add(grace + drainTime)
	}
	_ = a.out.w.SetWriteDeadline(late)
	_ = a.errs.w.SetWriteDeadline(late)
	patience := time.NewTimer(grace + linkTime)
	defer patience.Stop()
	select {
	case err := <-reaped:
		return err
	case <-patience.C:
	}
	a.Link.Close()
	return <-reaped
}
