//go:build unix

package daemon

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

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

// nodeMain is a node in a process of its own, which can be killed.
func nodeMain() int {
	c, err := config.Load(os.Getenv("NODE_FILE"), []string{"SWPD_CLUSTER_NODE=second", "SWPD_DATA=" + os.Getenv("NODE_DATA")})
	if err == nil {
		err = Run(context.Background(), Options{Config: c, Version: "test", Standby: func(string) { fmt.Println("stands by") }})
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func TestAKilledNodeEndsOnlyTheCallsOfItsPrograms(t *testing.T) {
	c, first := spread(t, "")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	second := exec.Command(self)
	second.Env = []string{childEnv + "=node", "NODE_FILE=" + filepath.Join(c.dir, "swpd.yaml"), "NODE_DATA=" + filepath.Join(c.dir, "second")}
	log := new(bytes.Buffer)
	second.Stderr = log
	out, err := second.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() { _, _ = second.Process.Kill(), second.Wait() })
	t.Cleanup(func() {
		if kill(); t.Failed() {
			t.Log(log)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "stands by\n" {
		t.Fatal(line, err)
	}
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
