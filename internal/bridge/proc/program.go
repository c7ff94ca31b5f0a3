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

// Start starts the program in its own process group. more are additional
// environment entries, with names fixed by the caller; they override configured
// ones. The caller calls Wait, and Close when it is done with the pipes.
func (p *Program) Start(more ...string) (*Process, error) {
	var in, out, errs pipe
	var err error
	for _, one := range []*pipe{&in, &out, &errs} {
		if one.r, one.w, err = os.Pipe(); err != nil {
			break
		}
	}
	mark := p.cfg.Groups.announce()
	cmd := &exec.Cmd{
		Path: p.path,
		Args: append([]string{p.cfg.Command}, p.cfg.Args...),
		Env:  slices.Concat([]string{"PATH=" + p.cfg.Path}, p.cfg.Env, more, environ(mark)),
		Dir:  p.cfg.Dir, Stdin: in.r, Stdout: out.w, Stderr: errs.w,
	}
	confine(cmd)
	if err == nil {
		err = cmd.Start()
	}
	for _, theirs := range []*os.File{in.r, out.w, errs.w} {
		_ = theirs.Close()
	}
	started := &Process{Stdin: in.w, Stdout: out.r, Stderr: errs.r, cmd: cmd, groups: p.cfg.Groups}
	if err != nil {
		started.Close()
		p.cfg.Groups.keep(0, mark)
		return nil, err
	}
	p.cfg.Groups.keep(started.PID(), mark)
	return started, nil
}

// pipe is both ends of one; nil files can be closed, too.
type pipe struct{ r, w *os.File }
