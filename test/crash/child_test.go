package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/profiles/all"
)

// postVariable tells a process of this program that it works as something, see post.
const postVariable = "SWP_CRASH_POST"

// What a process works as.
const (
	rolePublisher = "publisher" // of deliveries
	roleConsumer  = "consumer"
	roleGiver     = "giver"    // publishes events, puts states, uploads artifacts
	roleTaker     = "taker"    // subscribes, downloads artifacts
	roleCaller    = "caller"   // calls methods and tools, sends tasks
	roleExecutor  = "executor" // carries out tasks
	roleTools     = "tools"    // is an MCP server of a swpd
	roleOwner     = "owner"    // has a store in PostgreSQL
)

// post is what a process works as, and where.
type post struct {
	Role     string
	Name     string // of its journal
	Number   int    // odd: it names partners by targets, not by names that begin with them
	Rig      string // directory of the swpd that it connects to
	Journals string // directory
	Via      string // partner of that swpd whose resources it uses; empty: the swpd's own

	Store     string     // connection string of the store of an owner
	Exchanges string     // directory in which the process notes its exchanges; empty: it does not
	opened    *exchanges // that notes them, or nil
}

// lanes is on how many connections a publisher publishes.
const lanes = 8

// viaLanes is the same for one that publishes to a partner, and viaPace a pause between two
// things that one goroutine does there: two swpd and many others share the machine.
const (
	viaLanes = 2
	viaPace  = 10 * time.Millisecond
)

// child is the program of a post. It is killed in the end.
func child(octets string) error {
	var p post
	if err := json.Unmarshal([]byte(octets), &p); err != nil {
		return err
	}
	ctx := context.Background()
	if p.Exchanges != "" {
		j, err := openJournal(p.Exchanges, filepath.Base(p.Journals)+"-"+p.Name)
		if err != nil {
			return err
		}
		p.opened = &exchanges{j}
	}
	switch p.Role {
	case roleConsumer:
		c, err := newConsumer(p.Journals, p.Name)
		if err != nil {
			return err
		}
		c.run(ctx, p.dialer(devpki.Server, ""))
		return nil
	case rolePublisher:
		made, err := newPublisher(p.Journals, p.Name, forerunners(p.Journals, p.Name)...)
		if err != nil {
			return err
		}
		n := lanes
		if p.Via != "" {
			n, made.pace = viaLanes, viaPace
		}
		made.via, made.aims = p.Via, p.Via != "" && p.Number%2 == 1
		return made.run(ctx, p.dialer(devpki.Client, ""), n)
	case roleTools:
		return serveTools(p.Journals)
	case roleOwner:
		return p.own()
	}
	w, err := newWorker(p, p.dialer)
	if err != nil {
		return err
	}
	return w.run(ctx, p.Role)
}

// dialer connects to the swpd of a post, or through it to a partner, by one transport or
// the other.
func (p post) dialer(who func(string) devpki.Files, via string) dialer {
	luck := chances(p.Name + " dials")
	scheme := []string{tlsScheme, quicScheme}[luck.IntN(2)]
	return func(ctx context.Context, set *all.Set) (*client.Client, error) {
		return connect(ctx, addresses(p.Rig)[scheme], via, who(filepath.Join(p.Rig, "pki")), set, p.opened)
	}
}

// series is a process that is killed and started again, each time under another
// name.
type series struct {
	post
	kills map[string]span

	started int
	cmd     *exec.Cmd
}

func newSeries(p post) *series { return &series{post: p, kills: make(map[string]span)} }

// seriesName is the name of a series, and nameOf that of process n of it.
func (p post) seriesName() string { return fmt.Sprintf("%s-%d", p.Role, p.Number) }

func (p post) nameOf(n int) string { return fmt.Sprintf("%s.%d", p.seriesName(), n) }

// seriesOf returns the name of the series of a process.
func seriesOf(name string) string {
	series, _, _ := strings.Cut(name, ".")
	return series
}

// forerunners are the names of the processes of a series before one of them.
func forerunners(dir, name string) (names []string) {
	var last int
	series := seriesOf(name)
	if _, err := fmt.Sscanf(strings.TrimPrefix(name, series), ".%d", &last); err != nil {
		return nil
	}
	for n := range last {
		before := fmt.Sprintf("%s.%d", series, n)
		if _, err := os.Stat(filepath.Join(dir, before+ending)); !errors.Is(err, fs.ErrNotExist) {
			names = append(names, before)
		}
	}
	return names
}

func (s *series) start() error {
	s.Name = s.nameOf(s.started)
	cmd, err := s.command()
	if err != nil {
		return err
	}
	s.cmd = cmd
	s.started++
	return s.cmd.Start()
}

// command is the program of a post.
func (p post) command() (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), p.env()...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	return cmd, nil
}

func (p post) env() []string {
	octets, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return []string{postVariable + "=" + string(octets), fmt.Sprint(seedVariable, "=", seed())}
}

// kill ends the process by SIGKILL, and fails if it has ended by itself.
func (s *series) kill() error {
	killed := span{from: clock()}
	if err := s.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("crash: %s: %w", s.Name, err)
	}
	_ = s.cmd.Wait()
	killed.to = clock()
	s.kills[s.Name] = killed
	if status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		return fmt.Errorf("crash: %s has ended by itself: %s", s.Name, s.cmd.ProcessState)
	}
	return nil
}

// again kills the process and starts the next one.
func (s *series) again() error {
	if err := s.kill(); err != nil {
		return err
	}
	return s.start()
}
