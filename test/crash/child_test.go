package crash

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/profiles/all"
)

// What a process of this program is told that is a publisher or a consumer.
const (
	childRole     = "SWP_CRASH_ROLE"
	childName     = "SWP_CRASH_NAME"
	childRig      = "SWP_CRASH_RIG"      // directory
	childJournals = "SWP_CRASH_JOURNALS" // directory
)

const (
	rolePublisher = "publisher"
	roleConsumer  = "consumer"
)

// lanes is on how many connections a publisher publishes.
const lanes = 8

// child is the program of a publisher or a consumer. It is killed in the end.
func child(role string) error {
	journals, name, rig := os.Getenv(childJournals), os.Getenv(childName), os.Getenv(childRig)
	as := func(who func(string) devpki.Files) dialer {
		return func(ctx context.Context, set *all.Set) (*client.Client, error) {
			addr, _ := addresses(rig)
			return connect(ctx, addr, who(filepath.Join(rig, "pki")), set)
		}
	}
	if role == roleConsumer {
		c, err := newConsumer(journals, name)
		if err != nil {
			return err
		}
		c.run(context.Background(), as(devpki.Server))
		return nil
	}
	p, err := newPublisher(journals, name, forerunners(journals, name)...)
	if err != nil {
		return err
	}
	return p.run(context.Background(), as(devpki.Client), lanes)
}

// series is a process that is killed and started again, each time under another
// name.
type series struct {
	role    string
	number  int
	rig     string
	journal string // directory
	kills   map[string]span

	started int
	cmd     *exec.Cmd
}

func (s *series) name(n int) string { return fmt.Sprintf("%s-%d.%d", s.role, s.number, n) }

// forerunners are the names of the processes of a series before one of them.
func forerunners(dir, name string) (names []string) {
	var number, last int
	if _, err := fmt.Sscanf(name, rolePublisher+"-%d.%d", &number, &last); err != nil {
		return nil
	}
	s := series{role: rolePublisher, number: number}
	for n := range last {
		if _, err := os.Stat(filepath.Join(dir, s.name(n)+ending)); err == nil {
			names = append(names, s.name(n))
		}
	}
	return names
}

func (s *series) start() error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	s.cmd = exec.Command(path)
	s.cmd.Env = append(os.Environ(), childRole+"="+s.role, childName+"="+s.name(s.started), childRig+"="+s.rig, childJournals+"="+s.journal)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.cmd.Stderr = os.Stderr
	s.started++
	return s.cmd.Start()
}

// kill ends the process by SIGKILL, and fails if it has ended by itself.
func (s *series) kill() error {
	killed := span{from: clock()}
	if err := s.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = s.cmd.Wait()
	killed.to = clock()
	name := s.name(s.started - 1)
	s.kills[name] = killed
	if status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		return fmt.Errorf("crash: %s has ended by itself: %s", name, s.cmd.ProcessState)
	}
	return nil
}
