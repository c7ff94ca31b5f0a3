package suite

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
	"github.com/slimwire/swp/test/bench/swpd"
	"github.com/slimwire/swp/test/bench/swpecho"
)

// The keys of nodes on PostgreSQL: one alone, and of three the active node, another one, and all.
const (
	clusterKey  = "cluster-"
	oneNode     = clusterKey + "one"
	activeNode  = clusterKey + "active"
	passingNode = clusterKey + "passing"
	allNodes    = clusterKey + "all"
)

// embedded is what the others are compared with.
const embedded = "embedded store"

// Clusters returns the work that swpd does with the embedded store and with PostgreSQL.
func Clusters() []Work {
	return []Work{
		{Name: "durable publish", Systems: clusters("publish", swpecho.DialPublish), Cells: []Cell{{256, 1, 1}, {256, 1, 64}}},
		{Name: "RPC echo", Systems: clusters("echo", swpecho.DialTLS), Cells: []Cell{{64, 1, 1}, {64, 1, 64}}},
	}
}

func clusters(id string, dial echo.Dial) []System {
	subject := id + "-embedded"
	return []System{
		{subject, embedded, swpdKey, dial, ""},
		{id + "-one", "PostgreSQL, one node", oneNode, dial, subject},
		{id + "-active", "three nodes, the active one", activeNode, dial, subject},
		{id + "-passing", "three nodes, another one", passingNode, dial, subject},
		{id + "-all", "three nodes, all in turn", allNodes, inTurn(dial), subject},
	}
}

// inTurn connects to each of several addresses, with a comma between, in turn.
func inTurn(dial echo.Dial) echo.Dial {
	var turn atomic.Uint64
	return func(ctx context.Context, addr string, files cert.Files) (echo.Conn, error) {
		addrs := strings.Split(addr, ",")
		return dial(ctx, addrs[(turn.Add(1)-1)%uint64(len(addrs))], files)
	}
}

// cluster measures what PostgreSQL and the hop between two nodes cost.
func (r *run) cluster() error {
	if r.opts.SWPD == "" {
		return errNeedsProgram
	}
	for _, w := range Clusters() {
		for _, cell := range w.Cells {
			c, err := r.measureWork(w, cell, r.opts.Rounds)
			if err != nil {
				return err
			}
			c.Divided = embedded
			r.report.Cluster = append(r.report.Cluster, c)
		}
	}
	return nil
}

// clustered returns where the nodes of a key are reached, which are started if they have to be.
func (f *fleet) clustered(key string) (addr string, pids []int, err error) {
	nodes := 3
	if key == oneNode {
		nodes = 1
	}
	c, ok := f.nodes[nodes]
	if !ok {
		if c, err = swpd.StartCluster(f.ctx, f.opts.SWPD, f.dir, nodes); err != nil {
			return "", nil, err
		}
		f.nodes[nodes] = c
	}
	switch addrs := c.Addrs(); key {
	case oneNode, activeNode:
		return addrs[0], c.PIDs(), nil
	case passingNode:
		return addrs[1], c.PIDs(), nil
	case allNodes:
		return strings.Join(addrs, ","), c.PIDs(), nil
	}
	return "", nil, fmt.Errorf("suite: unknown nodes %q", key)
}
