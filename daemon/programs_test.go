//go:build unix

package daemon

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles/a2a"
)

// spread starts the active node of a cluster whose programs run at all nodes.
func spread(t *testing.T, yaml string) (*cluster, *running) {
	t.Helper()
	c := newCluster(t, childYAML(t)+"      nodes: all\n"+yaml)
	first, _ := c.node("first")
	return c, first
}

// listed waits until a node knows another one, whose second sign of life shows that it knows the others.
func listed(t *testing.T, by *running, name string) {
	t.Helper()
	silent := 0.0
	until(t, by, "the node is not listed", func(s Status) bool {
		return slices.ContainsFunc(s.Cluster.Nodes, func(n ClusterNode) bool {
			if n.Name != name {
				return false
			}
			before := silent
			silent = n.Silent
			return silent < before
		})
	})
}

// second starts a node that stands by, and returns when the active one knows it.
func (c *cluster) second(active *running) *running {
	c.t.Helper()
	r, _ := c.node("second", func(o *Options) { o.Drain = patience })
	listed(c.t, active, "second")
	return r
}

// programs waits until a node says that so many programs run, by node.
func programs(t *testing.T, r *running, want map[string]int) {
	t.Helper()
	until(t, r, fmt.Sprintf("want programs %v", want), func(s Status) bool {
		return !slices.ContainsFunc(s.Cluster.Nodes, func(n ClusterNode) bool { return n.Programs != nil && *n.Programs != want[n.Name] })
	})
}

// at returns the node that keeps the process group of the pid in an answer.
func (c *cluster) at(answer string) string {
	c.t.Helper()
	_, pid, _ := strings.Cut(answer, `"result":`)
	list, err := filepath.Glob(filepath.Join(c.dir, "*", "processes", strings.TrimSuffix(pid, "}")))
	if err != nil || len(list) != 1 {
		c.t.Fatalf("%s is kept at %q, %v", answer, list, err)
	}
	return filepath.Base(filepath.Dir(filepath.Dir(list[0])))
}

func TestProgramsRunAtTheNodeThatHasTheFewest(t *testing.T) {
	t.Parallel()
	c, first := spread(t, workerYAML(`echo "$SWP_TASK_KIND $KEY"; cat; echo problem >&2`, ", nodes: all"))
	second := c.second(first)
	s := first.mustDial(first.addrs[0])
	places := make(map[string]int)
	for range 4 {
		places[c.at(s.pid(t, "", s.begin(t, "")))]++
	}
	want := map[string]int{"first": 2, "second": 2}
	if fmt.Sprint(places) != fmt.Sprint(want) {
		t.Errorf("%v", places)
	}
	programs(t, first, want)
	programs(t, second, map[string]int{"second": 2})
	second.counts(`swpd_cluster_programs{node="second"}`, "2")
	s.begin(t, "") // here, so that a task runs there
	messages, result := s.hand(t, &a2a.Task{Kind: "k", Input: []byte("the input")}, a2a.SendOptions{})
	if strings.Join(messages, "|") != "k canary-of-the-environment|the input" || !result.OK {
		t.Errorf("%q, %+v", messages, result)
	}
	for _, line := range []string{`"child started","server":"child"`, `"worker says","worker":"one"`} {
		if !slices.ContainsFunc(strings.Split(first.log.String(), "\n"), func(l string) bool {
			return strings.Contains(l, line) && strings.Contains(l, `"node":"second"`)
		}) {
			t.Errorf("no line %s names the node", line)
		}
	}
}

func TestANodeThatStandsByEndsAfterTheCallsOfItsPrograms(t *testing.T) {
	t.Parallel()
	c, first := spread(t, "")
	second := c.second(first)
	s := first.mustDial(first.addrs[0])
	here, there := s.begin(t, ""), s.begin(t, "")
	answer, release := s.waits(t, "", there)
	second.stop()
	second.await(`"stopping"`)
	release()
	if got := <-answer; !strings.Contains(got, `"waited"`) {
		t.Fatal(got)
	}
	if err := second.end(); err != nil {
		t.Fatal(err)
	}
	if at := c.at(s.pid(t, "", here)); at != "first" {
		t.Fatal(at)
	}
	if at := c.at(s.pid(t, "", s.begin(t, ""))); at != "first" {
		t.Fatal(at)
	}
}

func TestANodeThatStandsByEndsAfterTheTasksOfItsPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, first := spread(t, workerYAML(`echo begun; until test -e `+dir+`/go; do sleep 0.02; done; echo done`, ", nodes: all"))
	second := c.second(first)
	s := first.mustDial(first.addrs[0])
	s.begin(t, "") // here, so that the task runs there
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d, err := s.tasks.Send(ctx, s.Session, &a2a.Task{Kind: "k"}, a2a.SendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var said []string
	for {
		event, err := d.Recv(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if said = append(said, event.Message); event.Message == "begun" {
			programs(t, second, map[string]int{"second": 1})
			second.stop()
			second.await(`"stopping"`)
			if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if result := d.Result(); !result.OK || !strings.HasSuffix(strings.Join(said, " "), "begun done") {
		t.Errorf("%q, %+v", said, result)
	}
	if err := second.end(); err != nil {
		t.Error(err)
	}
}

// nodeMain is a node in a process of its own, which can be killed.
func nodeMain() int {
	c, err := config.Load(os.Getenv("NODE_FILE"), []string{"SWPD_CLUSTER_NODE=second", "SWPD_DATA=" + os.Getenv("NODE_DATA")})
	if err == nil {
		err = Run(context.Background(), Options{
			Config: c, Version: "test", Standby: func(string) { fmt.Println("stands by") }, Ready: func([]string) { fmt.Println("serves") },
		})
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// process starts the node "second" in a process of its own, while another one is active. says waits for a
// line of it.
func (c *cluster) process() (says func(line string), kill func()) {
	c.t.Helper()
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	second := exec.Command(self)
	second.Env = []string{childEnv + "=node", "NODE_FILE=" + filepath.Join(c.dir, "swpd.yaml"), "NODE_DATA=" + filepath.Join(c.dir, "second")}
	log := new(bytes.Buffer)
	second.Stderr = log
	out, err := second.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := second.Start(); err != nil {
		c.t.Fatal(err)
	}
	kill = sync.OnceFunc(func() { _, _ = second.Process.Kill(), second.Wait() })
	c.t.Cleanup(func() {
		if kill(); c.t.Failed() {
			c.t.Log(log)
		}
	})
	lines := bufio.NewReader(out)
	says = func(want string) {
		c.t.Helper()
		if line, err := lines.ReadString('\n'); err != nil || line != want+"\n" {
			c.t.Fatalf("%q, %v", line, err)
		}
	}
	says("stands by")
	return says, kill
}

func TestAKilledNodeEndsOnlyTheCallsOfItsPrograms(t *testing.T) {
	t.Parallel()
	c, first := spread(t, "")
	_, kill := c.process()
	listed(t, first, "second")
	s := first.mustDial(first.addrs[0])
	here, there := s.begin(t, ""), s.begin(t, "")
	if at := c.at(s.pid(t, "", there)); at != "second" {
		t.Fatal(at)
	}
	kept, release := s.waits(t, "", here)
	lost, _ := s.waits(t, "", there)
	kill()
	if got := <-lost; !strings.Contains(got, "ended in the middle of the call") {
		t.Error(got)
	}
	release()
	if got := <-kept; !strings.Contains(got, `"waited"`) {
		t.Error(got)
	}
	if at := c.at(s.pid(t, "", s.begin(t, ""))); at != "first" {
		t.Error(at)
	}
	first.await("the link to node second is lost")
}

func TestTheProgramsOfAKilledActiveNodeEnd(t *testing.T) {
	t.Parallel()
	c, first := spread(t, "")
	says, kill := c.process()
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	says("serves")
	third, serves := c.node("third")
	listed(t, third, "second")
	s := third.mustDial(third.addrs[0])
	s.begin(t, "") // at the active node
	answer := s.pid(t, "", s.begin(t, ""))
	if at := c.at(answer); at != "third" {
		t.Fatal(at)
	}
	kill()
	within(t, "the other node does not become active", serves)
	for late := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		list, err := os.ReadDir(filepath.Join(c.dir, "third", "processes"))
		if err == nil && len(list) == 0 {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("%v, %v", list, err)
		}
	}
}
