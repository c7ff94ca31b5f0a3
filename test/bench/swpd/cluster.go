package swpd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/slimwire/swp/internal/pgtest"
	"github.com/slimwire/swp/test/bench/cert"
)

// Cluster is several swpd with one PostgreSQL database. The first is active.
type Cluster struct {
	server *pgtest.Server
	nodes  []*Server
}

// StartCluster runs PostgreSQL with its data in dir, and so many nodes with the certificates in dir, and
// waits until all listen. The error is pgtest.ErrMissing without PostgreSQL.
func StartCluster(ctx context.Context, path, dir string, nodes int) (*Cluster, error) {
	place, err := os.MkdirTemp(dir, "cluster-")
	if err != nil {
		return nil, err
	}
	artifacts := filepath.Join(place, "artifacts")
	if err := os.Mkdir(artifacts, 0o700); err != nil {
		return nil, err
	}
	c := new(Cluster)
	if c.server, err = pgtest.New(""); err != nil {
		return nil, err
	}
	for n := range nodes {
		address, err := freePort(ctx)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		node, err := launch(ctx, path, dir, cert.Server(dir), AuditOff, fmt.Sprintf("store: 'postgres:///postgres?host=%s&user=postgres'\ncluster: {node: node-%d, address: %q, artifacts: %q}\n",
			c.server.Socket(), n+1, address, artifacts))
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.nodes = append(c.nodes, node)
		if err := node.listens(ctx, node.addr); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Addrs are where the nodes listen, the active one first.
func (c *Cluster) Addrs() (list []string) {
	for _, n := range c.nodes {
		list = append(list, n.Addr())
	}
	return list
}

// PIDs are the process ids of the nodes.
func (c *Cluster) PIDs() (list []int) {
	for _, n := range c.nodes {
		list = append(list, n.PID())
	}
	return list
}

// Close ends the nodes, those that stand by first, and PostgreSQL.
func (c *Cluster) Close() (err error) {
	for i := len(c.nodes) - 1; i >= 0; i-- {
		err = errors.Join(err, c.nodes[i].Close())
	}
	return errors.Join(err, c.server.Close())
}
