// Package swpd runs the program under test: the swpd that the Makefile builds,
// with its own configuration.
package swpd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/slimwire/swp/test/bench/cert"
)

// Audits are the audit trails that a swpd can have, by name, as the key audit of its
// configuration.
var Audits = map[string]string{
	AuditOff:   "{exchanges: off}",
	"denials":  "{exchanges: denials}",
	"all":      "{exchanges: all}",
	"receipts": "{exchanges: all, receipts: true}",
}

// AuditOff is the name of having no trail.
const AuditOff = "off"

// Settings are those limits of the configuration that are not the default, for
// the head of the table.
const Settings = "frame_rate 0, connections 20000, connections_per_identity 20000, audit.exchanges off"

// configuration is the configuration of swpd: address, certificate, key, authority, data;
// further sections are appended.
const configuration = `listeners:
  - address: swp+tls://%[1]s
  - address: swp+quic://%[1]s
admin: off
identity:
  cert: %[2]s
  key: %[3]s
trust:
  ca: [%[4]s]
data: %[5]s
access:
  rules: [{identity: "**"}]
  agents: [{identity: "**", agent_ids: "**"}]
limits:
  frame_rate: 0
  connections: 20000
  connections_per_identity: 20000
log:
  level: warn
audit: `

// patience is how long swpd may take to listen, and to end.
const patience = 10 * time.Second

// ErrCollect is returned where a collection would have to be forced from
// outside, which swpd has no means for.
var ErrCollect = errors.New("swpd: cannot be made to collect garbage")

// Server is a running swpd that listens for TLS and for QUIC on one address.
type Server struct {
	cmd  *exec.Cmd
	addr string
	log  tail
	done chan struct{} // closed when the process has ended
}

// Start runs the program with the certificates in dir, which also gets its
// configuration and data, and waits until it listens. more are further sections of the
// configuration.
func Start(ctx context.Context, path, dir, more string) (*Server, error) {
	s, err := launch(ctx, path, dir, cert.Server(dir), AuditOff, more)
	if err != nil {
		return nil, err
	}
	if err := s.listens(ctx, s.addr); err != nil {
		return nil, err
	}
	return s, nil
}

// listens waits until the program listens on an address. It is ended if it does not.
func (s *Server) listens(ctx context.Context, addr string) error {
	for began := time.Now(); time.Since(began) < patience; {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-s.done:
			return s.failed()
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), s.Close())
		}
	}
	return errors.Join(errors.New("swpd: does not listen: "+s.log.String()), s.Close())
}

// Launch runs the program and returns at once. It is killed when ctx ends.
func Launch(ctx context.Context, path, dir string) (*Server, error) {
	return launch(ctx, path, dir, cert.Server(dir), AuditOff, "")
}

// launch runs the program with one of the certificates in dir, one of Audits, and more of
// a configuration.
func launch(ctx context.Context, path, dir string, files cert.Files, audit, more string) (*Server, error) {
	addr, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp(dir, "swpd-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(data, "swpd.yaml")
	text := fmt.Sprintf(configuration, addr, files.Cert, files.Key, files.CA, filepath.Join(data, "data")) + Audits[audit] + "\n" + more
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	s := &Server{cmd: exec.CommandContext(ctx, path, "run", "--config", file), addr: addr, done: make(chan struct{})}
	s.cmd.Stderr, s.cmd.Stdout = &s.log, &s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("swpd: %w (make build)", err)
	}
	go func() {
		_ = s.cmd.Wait()
		close(s.done)
	}()
	return s, nil
}

// Addr is where it listens, for TLS and for QUIC.
func (s *Server) Addr() string { return s.addr }

// PID is its process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Collect fails with ErrCollect.
func (s *Server) Collect() error { return ErrCollect }

// Done is closed when the process has ended.
func (s *Server) Done() <-chan struct{} { return s.done }

// Close asks swpd to end and makes it end if it does not.
func (s *Server) Close() error {
	select {
	case <-s.done:
		return s.failed()
	default:
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	force := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer force.Stop()
	<-s.done
	if !s.cmd.ProcessState.Success() {
		return s.failed()
	}
	return nil
}

func (s *Server) failed() error {
	return fmt.Errorf("swpd: %s: %s", s.cmd.ProcessState, s.log.String())
}

// freePort finds a port of the loopback interface that nobody uses, neither for
// TCP nor for UDP.
func freePort(ctx context.Context) (string, error) {
	for range 100 {
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		addr := ln.Addr().String()
		udp, err := new(net.ListenConfig).ListenPacket(ctx, "udp", addr)
		_ = ln.Close()
		if err == nil {
			return addr, udp.Close()
		}
	}
	return "", errors.New("swpd: no port is free")
}

// tail keeps the end of the output of a process.
type tail struct {
	mu  sync.Mutex
	end []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const keep = 4 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	if len(t.end) > 2*keep {
		t.end = append(t.end[:0], t.end[len(t.end)-keep:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.end))
}
