// Package proc runs the programs that the operator put behind this endpoint.
//
// Which program runs, with which arguments and in which environment, is said by
// configuration alone: no shell, nothing inherited, the path resolved once. A
// process gets its own group and pipes for its three streams. On Linux the kernel kills
// it when this process dies. Its descendants are killed with it, as long as they stay in
// its group and this process lives to do so; otherwise Groups ends them at the next start.
//
// Specification: ABUSE GW-01 to GW-03.
package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Config says what to run. It comes from the operator; nothing that a peer sends
// reaches it. Command is required.
type Config struct {
	// Command is an absolute path, or a bare name that is looked up in Path. No
	// shell is involved.
	Command string
	Args    []string

	// Env is the environment, as "KEY=value", beside PATH. Nothing is inherited.
	Env []string

	// Path is the PATH in which Command is looked up and which the process gets.
	// Only its absolute entries count.
	Path string

	// Dir is the working directory, default "/".
	Dir string

	// Groups keeps the process group while the program runs; nil: nobody does.
	Groups *Groups

	// Place decides where each process runs; nil: here. more are the additional environment
	// entries of Start. It returns the link to a process that another node has started, or
	// nil to start one here; ended is called when the process has ended.
	Place func(more []string) (there *Link, ended func())
}

// Program is a Config that was found fit to run. It is safe for concurrent use.
type Program struct {
	path string
	cfg  Config
}

// Resolve checks a configuration and looks up the command, once: a program that
// cannot be run is an error here.
func Resolve(cfg Config) (*Program, error) {
	for _, kv := range cfg.Env {
		if key, _, ok := strings.Cut(kv, "="); !ok || key == "" || key == "PATH" || strings.ContainsRune(kv, 0) {
			return nil, fmt.Errorf("proc: environment entry %q, want KEY=value, and not PATH", key)
		}
	}
	for _, arg := range cfg.Args {
		if strings.ContainsRune(arg, 0) {
			return nil, fmt.Errorf("proc: argument %q contains NUL", arg)
		}
	}
	if cfg.Dir == "" {
		cfg.Dir = "/"
	}
	path, err := cfg.lookUp()
	if err != nil {
		return nil, err
	}
	return &Program{path: path, cfg: cfg}, nil
}

// Path returns the absolute path of the command.
func (p *Program) Path() string { return p.path }

func (c *Config) lookUp() (string, error) {
	switch {
	case c.Command == "":
		return "", errors.New("proc: no command")
	case filepath.IsAbs(c.Command):
		if err := executable(c.Command); err != nil {
			return "", fmt.Errorf("proc: %w", err)
		}
		return c.Command, nil
	case strings.ContainsRune(c.Command, filepath.Separator):
		return "", fmt.Errorf("proc: command %q, want an absolute path or a bare name", c.Command)
	}
	for _, dir := range filepath.SplitList(c.Path) {
		if !filepath.IsAbs(dir) {
			continue // "." in PATH would make it depend on where we were started
		}
		if path := filepath.Join(dir, c.Command); executable(path) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("proc: command %q is not in PATH %q", c.Command, c.Path)
}

var errNotExecutable = errors.New("is not an executable file")

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%q %w", path, errNotExecutable)
	}
	return nil
}

// Start starts the program in its own process group, or at another node. more are additional
// environment entries, with names fixed by the caller; they override configured
// ones. The caller calls Wait, and Close when it is done with the pipes.
func (p *Program) Start(more ...string) (*Process, error) {
	var there *Link
	var ended func()
	if p.cfg.Place != nil {
		there, ended = p.cfg.Place(more)
	}
	streams, err := newPipes()
	switch {
	case err != nil:
	case there != nil:
		return there.join(streams, ended), nil
	default:
		var cmd *exec.Cmd
		if cmd, err = p.run(streams, more); err == nil {
			return &Process{Stdin: streams.in.w, Stdout: streams.out.r, Stderr: streams.errs.r, Leaving: context.Background(), body: local{cmd, p.cfg.Groups}, ended: ended}, nil
		}
	}
	streams.close()
	if there != nil {
		there.Close()
	}
	if ended != nil {
		ended()
	}
	return nil, err
}

// run starts the program here.
func (p *Program) run(streams *pipes, more []string) (*exec.Cmd, error) {
	mark := p.cfg.Groups.announce()
	cmd := &exec.Cmd{
		Path: p.path,
		Args: append([]string{p.cfg.Command}, p.cfg.Args...),
		Env:  slices.Concat([]string{"PATH=" + p.cfg.Path}, p.cfg.Env, more, environ(mark)),
		Dir:  p.cfg.Dir, Stdin: streams.in.r, Stdout: streams.out.w, Stderr: streams.errs.w,
	}
	confine(cmd)
	if err := cmd.Start(); err != nil {
		p.cfg.Groups.keep(0, mark)
		return nil, err
	}
	streams.closeTheirs()
	p.cfg.Groups.keep(cmd.Process.Pid, mark)
	return cmd, nil
}

// pipes are the standard streams of a process.
type pipes struct{ in, out, errs pipe }

// pipe is both ends of one; nil files can be closed, too.
type pipe struct{ r, w *os.File }

func newPipes() (*pipes, error) {
	p := new(pipes)
	for _, one := range []*pipe{&p.in, &p.out, &p.errs} {
		var err error
		if one.r, one.w, err = os.Pipe(); err != nil {
			return p, err
		}
	}
	return p, nil
}

// closeTheirs closes the ends of the process.
func (p *pipes) closeTheirs() {
	_ = p.in.r.Close()
	_ = p.out.w.Close()
	_ = p.errs.w.Close()
}

func (p *pipes) close() {
	p.closeTheirs()
	_ = p.in.w.Close()
	_ = p.out.r.Close()
	_ = p.errs.r.Close()
}
