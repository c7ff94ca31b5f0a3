// Package proc runs parts of the benchmark in child processes: the parent sends commands
// and the child answers, one JSON value a line over standard input and output. A child ends
// with its input, so that none survives its parent.
package proc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// patience is how long a child may take to end once it was asked to.
const patience = 5 * time.Second

type command struct {
	Op   string          `json:"op"`
	Args json.RawMessage `json:"args,omitempty"`
}

type reply struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// Child is a process that answers commands. It is safe for concurrent use; one
// command is under way at a time.
type Child struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser

	mu  sync.Mutex
	out *bufio.Reader
}

// Start runs this program again with the given arguments, for which it must call Answer.
// Standard error is inherited. The child is killed when ctx ends.
func Start(ctx context.Context, args ...string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &Child{name: strings.Join(args, " "), cmd: cmd, in: in, out: bufio.NewReader(out)}, nil
}

// PID is the process id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Do sends a command and waits for its answer, which it stores in result unless
// that is nil.
func (c *Child) Do(op string, args, result any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.do(op, args, result); err != nil {
		return fmt.Errorf("%s: %s: %w", c.name, op, err)
	}
	return nil
}

func (c *Child) do(op string, args, result any) error {
	raw, err := json.Marshal(args)
	if err != nil {
		return err
	}
	line, err := json.Marshal(command{Op: op, Args: raw})
	if err != nil {
		return err
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return err
	}
	line, err = c.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	var r reply
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(r.Result, result)
}

// Close ends the child, by force if it does not end by itself.
func (c *Child) Close() error {
	_ = c.in.Close()
	force := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
	defer force.Stop()
	return c.cmd.Wait()
}

// Ops are the commands that a child knows.
type Ops map[string]func(args json.RawMessage) (result any, err error)

// Answer reads commands from r and writes their results to w, one after the
// other, until r ends.
func Answer(r io.Reader, w io.Writer, ops Ops) error {
	in, out := json.NewDecoder(r), json.NewEncoder(w)
	for {
		var c command
		if err := in.Decode(&c); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := out.Encode(run(c, ops)); err != nil {
			return err
		}
	}
}

func run(c command, ops Ops) reply {
	op, ok := ops[c.Op]
	if !ok {
		return reply{Error: fmt.Sprintf("proc: unknown command %q", c.Op)}
	}
	result, err := op(c.Args)
	if err != nil {
		return reply{Error: err.Error()}
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return reply{Error: err.Error()}
	}
	return reply{Result: raw}
}
