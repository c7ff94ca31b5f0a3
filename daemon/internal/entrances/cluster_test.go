package entrances

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/bridge/proc"
	"github.com/slimwire/swp/store/pgstore"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/transporttest"
)

// table is a table of members in memory.
type table struct {
	mu     sync.Mutex
	list   []pgstore.Member
	active string
}

func (b *table) Beat(_ context.Context, own pgstore.Member) ([]pgstore.Member, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(slices.DeleteFunc(b.list, func(m pgstore.Member) bool { return m.Name == own.Name }), own)
	list := slices.Clone(b.list)
	for i := range list {
		list[i].Active = list[i].Name == b.active
	}
	return list, nil
}

func (b *table) Close(string) error { return nil }

func (b *table) activate(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active = name
}

func join(t *testing.T, b *table, name string, more ...func(*ClusterOptions)) *Cluster {
	t.Helper()
	conf := &config.Config{Store: "postgres://db/swpd", Cluster: config.Cluster{Node: name, Address: "127.0.0.1:0"}}
	conf.Limits.Connections, conf.Limits.Write = 10, time.Minute
	o := ClusterOptions{
		Groups: func() (*proc.Groups, error) { return nil, nil },
		Config: conf, Latest: func() *config.Config { return conf }, Log: zap.NewNop(), Version: "test", Self: func() string { return "swp://endpoint.example" }, Members: b,
		Policy: transporttest.NewCA(t).Policy(t, "swp://endpoint.example"), OnEvent: func(transport.SecurityEvent) {}, Admit: func() error { return nil },
	}
	for _, f := range more {
		f(&o)
	}
	c, err := JoinCluster(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// stands waits until the health of a node that stands by has a reason with text; empty: until it is ready.
func stands(t *testing.T, c *Cluster, text string) {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var h part.Health
		c.Stands("a", &h)
		if text == "" && len(h.Reasons) == 0 || text != "" && strings.Contains(strings.Join(h.Reasons, "\n"), text) {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("%+v, want %q", h, text)
		}
	}
}

// mustReach waits until the active node took a connection.
func (c *Cluster) mustReach(t *testing.T) {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		c.mu.Lock()
		err := c.refused
		c.mu.Unlock()
		if err == nil {
			return
		}
		if time.Now().After(late) {
			t.Fatal(err)
		}
	}
}

func TestANodeThatCannotReachTheActiveOneIsNotReady(t *testing.T) {
	b := new(table)
	active, other := join(t, b, "a"), join(t, b, "b")
	other.grace = 0 // each answer counts
	other.Pass(NewListeners(Options{}), nil)
	stands(t, other, "no process takes connections")
	b.activate("a")
	stands(t, other, "takes no connections now")
	active.Opened()
	other.mustReach(t)
	active.Retire()
	stands(t, other, "takes no connections now")
	active.Opened()
	other.mustReach(t)
	_ = active.Close()
	stands(t, other, net.JoinHostPort("127.0.0.1", ""))
	other.grace = time.Hour
	stands(t, other, "")
}

// A link that drops packets ends no connection by itself for minutes.
func TestPassedConnectionsEndWhenTheActiveNodeCannotBeReached(t *testing.T) {
	b := new(table)
	active, other := join(t, b, "a"), join(t, b, "b")
	b.activate("a")
	active.Opened()
	other.Pass(NewListeners(Options{}), nil)
	other.mustReach(t)
	place, _ := other.place()
	active.Retire()
	other.mu.Lock()
	other.grace = 0
	other.mu.Unlock()
	stands(t, other, "takes no connections now")
	if place.Until.Err() != nil {
		t.Fatal("connections end although the active node answers")
	}
	_ = active.taker.Close()
	select {
	case <-place.Until.Done():
	case <-time.After(time.Minute):
		t.Fatal("connections stay")
	}
}

func TestANodeWarnsOfAListOfNodesThatItCannotRead(t *testing.T) {
	c := Cluster{read: time.Now().Add(-time.Minute)}
	var h part.Health
	if c.Look(&h); len(h.Warnings) != 1 || !strings.HasPrefix(h.Warnings[0], "cluster: the list of nodes could not be read for 60 s: the database does not answer") {
		t.Errorf("%q", h.Warnings)
	}
	c.read, h.Warnings = time.Now(), nil
	if c.Look(&h); len(h.Warnings) > 0 {
		t.Errorf("after less than the silence of a node: %q", h.Warnings)
	}
	c.started, c.read = time.Now().Add(-time.Minute), time.Time{}
	c.learn(nil, errors.New("permission denied"))
	if c.Look(&h); len(h.Warnings) != 1 || !strings.HasSuffix(h.Warnings[0], "for 60 s: permission denied") {
		t.Errorf("a list that was never read: %q", h.Warnings)
	}
}
