//go:build unix

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Process is a swpd that was started.
type Process struct {
	Name string
	log  string // file
	cmd  *exec.Cmd
	end  chan struct{} // closed when it has ended
	err  error         // how, after that
}

// Start starts a swpd with the configuration of an organisation and additions to the environment. It logs
// to the file NAME.log in the directory of the organisation.
func (o *Organisation) Start(swpd, name string, env ...string) (*Process, error) {
	p := &Process{Name: name, log: filepath.Join(o.Dir, name+".log"), end: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	p.cmd = exec.Command(swpd, "run", "--config", o.Configuration()) //nolint:gosec // a program of the test
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), env...), log
	p.cmd.SysProcAttr = lifelong()
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() {
		p.err = p.cmd.Wait()
		_ = log.Close()
		close(p.end)
	}()
	return p, nil
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.end:
		return true
	default:
		return false
	}
}

// Kill ends the process without notice.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.end
}

// Drain stops the process as its service manager does, and waits for its end. It fails if that is not in
// order.
func (p *Process) Drain(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.end:
	case <-ctx.Done():
		return fmt.Errorf("%s has not ended: %w", p.Name, context.Cause(ctx))
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w: %s", p.Name, p.err, p.Tail())
	}
	return nil
}

// Logged reports whether the log has a message.
func (p *Process) Logged(message string) bool {
	octets, err := os.ReadFile(p.log)
	return err == nil && bytes.Contains(octets, fmt.Appendf(nil, "%q", message))
}

// Tail returns the end of the log.
func (p *Process) Tail() string {
	octets, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(octets[max(0, len(octets)-2000):])
}

// await waits for a condition as long as the process runs.
func (p *Process) await(ctx context.Context, what string, is func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-p.end:
			return fmt.Errorf("%s has ended: %w: %s", p.Name, p.err, p.Tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not %s: %w: %s", p.Name, what, context.Cause(ctx), p.Tail())
		}
	}
	return nil
}

// Logs waits until the log has a message.
func (p *Process) Logs(ctx context.Context, message string) error {
	return p.await(ctx, "at "+message, func() bool { return p.Logged(message) })
}
