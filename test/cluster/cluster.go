//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/slimwire/swp/internal/pgtest"
)

// Cluster is an organisation whose endpoint is several swpd with one PostgreSQL database, behind a
// Balancer. One goroutine at a time may call its methods.
type Cluster struct {
	Organisation
	Balancer *Balancer
	Server   *pgtest.Server

	nodes []*Process // started and not removed
	made  int
}

// New starts PostgreSQL and a Balancer, and makes the authority of the organisation. There is no node and
// no configuration yet. The error is pgtest.ErrMissing without PostgreSQL. The caller closes the Cluster.
func New(name, dir string) (*Cluster, error) {
	balancer, err := Listen()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Organisation: Organisation{Name: name, Dir: dir, Address: balancer.Address()}, Balancer: balancer}
	if c.Server, err = pgtest.New("", "max_connections=100"); err == nil {
		err = errors.Join(c.Authenticate(), os.MkdirAll(c.artifacts(), 0o700))
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) artifacts() string { return filepath.Join(c.Dir, "artifacts") }

// Configure writes the configuration of all nodes.
func (c *Cluster) Configure(extra string, partners ...Partner) error {
	store := fmt.Sprintf("store: 'postgres:///postgres?host=%s&user=postgres'\ncluster: {artifacts: %q}\n", c.Server.Socket(), c.artifacts())
	return c.Organisation.Configure(store+extra, partners...)
}

// Add starts a node. It does not wait for it.
func (c *Cluster) Add(swpd string) (*Process, error) {
	var address, inner, health string
	for _, to := range []*string{&address, &inner, &health} {
		var err error
		if *to, err = FreeAddress(); err != nil {
			return nil, err
		}
	}
	c.made++
	name := fmt.Sprintf("node-%d", c.made)
	p, err := c.Start(swpd, name, "SWPD_CLUSTER_NODE="+name, "SWPD_CLUSTER_ADDRESS="+inner, "SWPD_DATA="+filepath.Join(c.Dir, name), "SWPD_HEALTH="+health,
		"SWPD_LISTENERS_0_ADDRESS=swp+tls://"+address, "SWPD_LISTENERS_1_ADDRESS=swp+quic://"+address)
	if err != nil {
		return nil, err
	}
	c.nodes = append(c.nodes, p)
	c.Balancer.Add(name, Backend{Address: address, Health: health})
	return p, nil
}

// Remove takes a node that has ended, or is to end, from the balancer.
func (c *Cluster) Remove(p *Process) {
	c.Balancer.Remove(p.Name)
	c.nodes = slices.DeleteFunc(c.nodes, func(other *Process) bool { return other == p })
}

// Nodes returns the nodes that were not removed, the oldest first.
func (c *Cluster) Nodes() []*Process { return slices.Clone(c.nodes) }

// Up waits until the Balancer gives connections to a node.
func (c *Cluster) Up(ctx context.Context, p *Process) error {
	return p.await(ctx, "ready", func() bool { return slices.Contains(c.Balancer.Ready(), p.Name) })
}

// Active waits until a node has the store, and returns it.
func (c *Cluster) Active(ctx context.Context) (*Process, error) {
	var found *Process
	is := func() bool {
		i := slices.IndexFunc(c.nodes, func(p *Process) bool { return !p.Ended() && p.Logged("shared store") })
		if i >= 0 {
			found = c.nodes[i]
		}
		return i >= 0
	}
	for _, p := range c.nodes {
		if !p.Ended() {
			return found, p.await(ctx, "followed by an active node", is)
		}
	}
	return nil, errors.New("no node runs")
}

// Close ends all nodes, the balancer and PostgreSQL.
func (c *Cluster) Close() error {
	for _, p := range c.nodes {
		p.Kill()
	}
	c.Balancer.Close()
	if c.Server == nil {
		return nil
	}
	return c.Server.Close()
}
