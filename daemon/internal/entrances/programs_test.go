//go:build unix

package entrances

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/bridge/proc"
	"github.com/slimwire/swp/store/pgstore"
	"github.com/slimwire/swp/transport/transporttest"
)

// cat is an MCP server whose processes run at all nodes.
func cat(o *ClusterOptions) {
	o.Config.MCP.Servers = map[string]config.MCPServer{"cat": {Command: "cat", Dir: "/", MaxChildren: 4, Nodes: config.NodesAll}}
	o.Config.A2A.Workers = map[string]config.A2AWorker{"cat": {Command: "cat", Dir: "/", Tasks: 1, Nodes: config.NodesActive}}
}

// knows waits until a node knows others.
func (c *Cluster) knows(t *testing.T, names ...string) {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		list, _ := c.known()
		if !slices.ContainsFunc(names, func(name string) bool {
			return !slices.ContainsFunc(list, func(m pgstore.Member) bool { return m.Name == name })
		}) {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("%+v, want %q", list, names)
		}
	}
}

// cat starts a process of an entry.
func (c *Cluster) cat(t *testing.T, entry string) (p *proc.Process, wait func() error) {
	t.Helper()
	conf := part.Program("cat", nil, nil, "/", nil)
	conf.Place = c.Place(entry, conf)
	program, err := proc.Resolve(conf)
	if err == nil {
		p, err = program.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Wait(nil, nil) }()
	wait = func() error {
		t.Helper()
		defer p.Close()
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Minute):
			t.Fatal("the process runs")
			return nil
		}
	}
	return p, wait
}

// ends ends processes at the end of their input.
func ends(t *testing.T, p *proc.Process, wait func() error) {
	t.Helper()
	if _, err := p.Stdin.WriteString("last words"); err != nil {
		t.Error(err)
	}
	_ = p.Stdin.Close()
	if out, err := io.ReadAll(p.Stdout); err != nil || string(out) != "last words" {
		t.Errorf("%q, %v", out, err)
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
}

func TestAProgramRunsAtTheNodeWithTheFewest(t *testing.T) {
	transporttest.NoLeaks(t)
	b := new(table)
	a, one, two := join(t, b, "a", cat), join(t, b, "b", cat), join(t, b, "c", cat)
	for _, other := range []*Cluster{one, two} {
		other.Pass(NewListeners(Options{}), nil)
	}
	a.knows(t, "b", "c")
	one.knows(t, "a")
	two.knows(t, "a")
	var at []string
	var all []func()
	for range 7 {
		p, wait := a.cat(t, "mcp/cat")
		at = append(at, p.Node)
		all = append(all, func() { ends(t, p, wait) })
	}
	slices.Sort(at)
	if strings.Join(at, " ") != "   b b c c" { // three of a
		t.Errorf("%q", at)
	}
	if got := a.programs(); got["a"] != 3 || got["b"] != 2 || got["c"] != 2 {
		t.Errorf("%v", got)
	}
	for _, end := range all {
		end()
	}
	if got := a.programs(); got["a"]+got["b"]+got["c"] != 0 {
		t.Errorf("%v at the end", got)
	}
}

func TestANodeThatDoesNotRunAProgramIsNotAskedAgainAtOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		entry string
		more  func(*ClusterOptions)
		make  func(*Cluster)
		want  string // in the log; empty: it is not asked
	}{
		"not standing by":       {"mcp/cat", cat, func(*Cluster) {}, "this node does not stand by"},
		"about to end":          {"mcp/cat", cat, func(c *Cluster) { c.Pass(NewListeners(Options{}), nil); c.leaving() }, "this node is about to end"},
		"unknown entry":         {"mcp/dog", cat, func(c *Cluster) { c.Pass(NewListeners(Options{}), nil) }, `no entry \"mcp/dog\" with nodes: all`},
		"not of this entry":     {"a2a/cat", cat, func(c *Cluster) { c.Pass(NewListeners(Options{}), nil) }, `no entry \"a2a/cat\" with nodes: all`},
		"unknown kind":          {"cat", cat, func(c *Cluster) { c.Pass(NewListeners(Options{}), nil) }, `no entry \"cat\"`},
		"unreachable":           {"mcp/cat", cat, func(c *Cluster) { _ = c.taker.Close() }, "connection refused"},
		"another configuration": {"mcp/cat", func(o *ClusterOptions) { cat(o); o.Config.Limits.InFlight++ }, func(c *Cluster) { c.Pass(NewListeners(Options{}), nil) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			transporttest.NoLeaks(t)
			b := new(table)
			seen, log := observer.New(zap.WarnLevel)
			a := join(t, b, "a", cat, func(o *ClusterOptions) { o.Log = zap.New(seen) })
			other := join(t, b, "b", tt.more)
			a.knows(t, "b")
			other.knows(t, "a")
			tt.make(other)
			for range 2 {
				p, wait := a.cat(t, tt.entry)
				if p.Node != "" {
					t.Errorf("it runs at %s", p.Node)
				}
				defer ends(t, p, wait)
			}
			asked := log.FilterMessageSnippet("is started here").All()
			switch {
			case tt.want == "" && len(asked) > 0, tt.want != "" && len(asked) != 1:
				t.Errorf("%v", asked)
			case tt.want != "":
				if text := asked[0].ContextMap()["error"].(string); !strings.Contains(text, strings.ReplaceAll(tt.want, `\`, "")) {
					t.Errorf("%s, want %s", text, tt.want)
				}
			}
		})
	}
}

// A node that has become active has another store to serve, and the one before asks for nothing any more.
func TestTheProgramsOfAnotherNodeEndWhenThisOneBecomesActive(t *testing.T) {
	for name, change := range map[string]func(b *table, c *Cluster){
		"this one":    func(_ *table, c *Cluster) { c.Rise() },
		"another one": func(b *table, _ *Cluster) { b.activate("c") },
	} {
		t.Run(name, func(t *testing.T) {
			transporttest.NoLeaks(t)
			b := new(table)
			b.activate("a")
			a, other := join(t, b, "a", cat), join(t, b, "b", cat)
			join(t, b, "c", func(o *ClusterOptions) { o.Config.Cluster.Address = "" })
			other.Pass(NewListeners(Options{}), nil)
			a.knows(t, "b", "c")
			other.knows(t, "a", "c")
			p, wait := a.cat(t, "mcp/cat")
			if p.Node != "b" {
				// The first runs here, because no node has fewer.
				defer ends(t, p, wait)
				p, wait = a.cat(t, "mcp/cat")
			}
			change(b, other)
			if err := wait(); p.Node != "b" || err == nil {
				t.Errorf("at %q: %v", p.Node, err)
			}
		})
	}
}
