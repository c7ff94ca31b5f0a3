//go:build unix

// Package pgtest starts PostgreSQL for tests.
package pgtest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience limits the wait for a server.
const patience = 2 * time.Minute

// ErrMissing says that there is no PostgreSQL to start.
var ErrMissing = errors.New("pgtest: neither PATH nor /usr/lib/postgresql/*/bin has postgres and initdb (Debian: postgresql)")

// Options say how a server is started.
type Options struct {
	// Dir has its socket and its data; default a temporary directory.
	Dir string

	// Settings are such as "fsync=on".
	Settings []string

	// Address is an IP address at which it listens besides the socket, at port 5432, and admits all
	// clients; default none.
	Address string

	// Launch starts its process; default (*exec.Cmd).Start.
	Launch func(*exec.Cmd) error
}

// Server is a server with a private directory. It listens on a socket in this directory.
type Server struct {
	dir     string // with the socket and the data
	options Options
	as      *syscall.Credential
	stdin   io.Closer
	cmd     *exec.Cmd
	ended   chan struct{} // closed when cmd has ended
	output  bytes.Buffer
}

// program returns the path of a program of PostgreSQL.
func program(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return "", ErrMissing
	}
	return found[len(found)-1], nil
}

// New starts a server with Options.Dir and Options.Settings.
func New(dir string, settings ...string) (*Server, error) {
	return With(Options{Dir: dir, Settings: settings})
}

// With starts a server. PostgreSQL refuses to run as root: then it runs as another user.
func With(o Options) (*Server, error) {
	s, err := place(o)
	if err != nil {
		return nil, err
	}
	if err := s.run("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"); err != nil {
		return nil, err
	}
	if o.Address != "" {
		if err := s.letIn(); err != nil {
			return nil, err
		}
	}
	return s, s.Start()
}

// place returns a server without data.
func place(o Options) (s *Server, err error) {
	if _, err := program("initdb"); err != nil {
		return nil, err
	}
	s = &Server{dir: o.Dir, options: o}
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "pg"); err != nil {
			return nil, err
		}
	}
	if o.Launch == nil {
		s.options.Launch = (*exec.Cmd).Start
	}
	return s, s.user()
}

// run runs a program of PostgreSQL, as its user.
func (s *Server) run(name string, args ...string) error {
	path, err := program(name)
	if err != nil {
		return err
	}
	cmd, out := s.command(path, args...), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	if err := s.options.Launch(cmd); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// letIn admits all clients at the address.
func (s *Server) letIn() error {
	f, err := os.OpenFile(filepath.Join(s.data(), "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("host all all all trust\nhost replication all all trust\n")
	return errors.Join(err, f.Close())
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// user chooses the user of the server, and gives it the directory.
func (s *Server) user() error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return s.Own(s.dir)
	}
	return fmt.Errorf("%w, or no user to run them as", ErrMissing)
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...) //nolint:gosec // a test
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return cmd
}

// Own gives a directory to the user of the server.
func (s *Server) Own(dir string) error {
	if s.as == nil {
		return nil
	}
	return os.Chown(dir, int(s.as.Uid), int(s.as.Gid))
}

// Start starts a server that was stopped or killed, and waits until it can be used.
func (s *Server) Start() error {
	for late := time.Now().Add(patience); ; {
		if err := s.launch(); err != nil {
			return err
		}
		err := s.wait(late)
		if err == nil {
			return nil
		}
		s.Stop()
		if time.Now().After(late) {
			return fmt.Errorf("%w: %s", err, s.output.String())
		}
	}
}

// launch starts the process of the server.
func (s *Server) launch() error {
	postgres, err := program("postgres")
	if err != nil {
		return err
	}
	// The shell ends the server when this process ends, however that happens. A server that has just begun
	// ignores the signal.
	const script = `exec 3<&0; "$@" & server=$!
		{ read line <&3; while kill -INT $server; do sleep 0.2; done; } >/dev/null 2>&1 &
		wait $server`
	args := []string{"-c", script, "sh", postgres, "-D", s.data(), "-k", s.dir, "-h", s.options.Address}
	for _, setting := range s.options.Settings {
		args = append(args, "-c", setting)
	}
	s.cmd = s.command("/bin/sh", args...)
	s.output.Reset()
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	if err = s.options.Launch(s.cmd); err != nil {
		return err
	}
	cmd, ended := s.cmd, make(chan struct{})
	s.ended = ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	return nil
}

// wait waits until the server can be used. After a kill it may refuse to start for a moment, because
// the processes of the killed one have not ended.
func (s *Server) wait(late time.Time) error {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		c, err := pgx.Connect(ctx, s.DSN("postgres"))
		if err == nil {
			_ = c.Close(ctx)
		}
		cancel()
		if err == nil || time.Now().After(late) {
			return err
		}
		select {
		case <-s.ended:
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Socket returns the directory with the socket.
func (s *Server) Socket() string { return s.dir }

// Host returns the address of the server, or the directory of its socket if it has none: the parameter
// host of a connection string.
func (s *Server) Host() string { return cmp.Or(s.options.Address, s.dir) }

// DSN returns the connection string of a database, over the socket.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("host=%s user=postgres dbname=%s", s.dir, database)
}

// Pid returns the process that starts all others of the server.
func (s *Server) Pid() (int, error) {
	file, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(file), "\n")
	return strconv.Atoi(first)
}

// Kill ends the server without notice, as a crash does.
func (s *Server) Kill() error {
	pid, err := s.Pid()
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	s.Stop()
	return err
}

// Stop stops the server.
func (s *Server) Stop() {
	if s.cmd != nil {
		_ = s.stdin.Close()
		<-s.ended
		s.cmd = nil
	}
}

// Close stops the server and removes its directory. The server writes nothing before: a checkpoint of
// many databases takes minutes on a busy disk.
func (s *Server) Close() error {
	if pid, err := s.Pid(); err == nil && s.cmd != nil {
		_ = syscall.Kill(pid, syscall.SIGQUIT)
	}
	s.Stop()
	return os.RemoveAll(s.dir)
}

// Database makes an empty database and returns its connection string.
func (s *Server) Database(ctx context.Context) (string, error) {
	name, err := s.Name(ctx)
	return s.DSN(name), err
}

// Name makes an empty database and returns its name.
func (s *Server) Name(ctx context.Context) (string, error) {
	c, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close(ctx) }()
	name := "test_" + strings.ToLower(rand.Text())
	_, err = c.Exec(ctx, "CREATE DATABASE "+name)
	return name, err
}

// shared is the server of all tests of a program.
var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Shared returns the server that all tests of a program share. It is started by the first, which skips
// without PostgreSQL, and ended by Run.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = New("", "max_connections=200", "checkpoint_timeout=1h", "max_wal_size=10GB") })
	Must(t, shared.err)
	return shared.server
}

// Must fails a test after an error of this package; it skips it without PostgreSQL.
func Must(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Run runs the tests of a program, and ends the shared server.
func Run(m *testing.M) int {
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.Close(); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			return max(code, 1)
		}
	}
	return code
}
