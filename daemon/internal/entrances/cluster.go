package entrances

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/boundlog"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/hosting"
	"github.com/slimwire/swp/internal/passing"
	"github.com/slimwire/swp/internal/plain"
	"github.com/slimwire/swp/store/pgstore"
	"github.com/slimwire/swp/transport"
)

// Cluster is this node among those that share a store. While another node is active, it passes the
// connections of peers to that node; while it is active itself, it takes those that others pass. Without
// cluster.address it does neither, and is only listed.
type Cluster struct {
	part.Passive
	o       ClusterOptions
	node    string
	key     *tls.Certificate
	started time.Time
	taker   *passing.Taker // nil: without an address
	passer  passing.Passer
	open    atomic.Int64 // connections that are passed
	work    sync.WaitGroup
	end     context.CancelFunc
	grace   time.Duration // see replaced
	placed  programs
	host    hosting.Host

	mu      sync.Mutex
	members []pgstore.Member
	read    time.Time          // when members was read
	free    time.Time          // when this node had its name last
	double  bool               // another process has the name, and does not fall silent
	reached time.Time          // when the active node took a connection last
	refused error              // why it did not since
	active  string             // certificate of the node that connections are passed to
	era     context.Context    // ends when another node takes its place
	over    context.CancelFunc // ends era
	passing context.CancelFunc // ends the passing; nil: this node does not pass
	stands  context.Context    // ends with the passing; nil: this node does not pass
	leaving context.CancelFunc // ends passer.Leaving
	loops   sync.WaitGroup     // of passing
	unread  error              // why members could not be read at the last attempt
	differ  []string           // nodes with another configuration
	told    string             // of differ in the log
	passed  *prometheus.CounterVec
}

// ClusterOptions configure a Cluster. All fields are required.
type ClusterOptions struct {
	Config  *config.Config
	Log     *zap.Logger
	Version string
	Self    func() string     // the identity of this endpoint
	Policy  *transport.Policy // of the listeners
	OnEvent func(transport.SecurityEvent)
	Admit   func() error // why no connection can be taken now, for lack of memory

	// Groups returns the process groups of programs that run for other nodes.
	Groups part.Groups

	// Latest returns the configuration that this node uses, or will use when it becomes active.
	Latest func() *config.Config

	// Members lists the nodes.
	Members interface {
		Beat(ctx context.Context, own pgstore.Member) ([]pgstore.Member, error)
		Close(name string) error
	}
}

// JoinCluster opens cluster.address, and has this node listed. It takes no connections yet.
func JoinCluster(o ClusterOptions) (*Cluster, error) {
	c := &Cluster{o: o, started: time.Now(), free: time.Now(), grace: replaced, refused: errors.New("not asked yet")}
	var err error
	if c.node, err = o.Config.NodeName(); err != nil {
		return nil, err
	}
	if c.key, err = passing.NewKey(c.node); err != nil {
		return nil, err
	}
	c.era, c.over = context.WithCancel(context.Background())
	c.placed.far, c.placed.avoid = make(map[string]*far), make(map[string]time.Time)
	c.host = hosting.Host{Offer: c.offer, OnStart: func(entry string, pid int) {
		o.Log.Debug("program started for the active node", zap.String("entry", entry), zap.Int("pid", pid))
	}}
	c.passer = passing.Passer{Own: c.key, Place: c.place, Patience: passPatience, Write: o.Config.Limits.Write}
	c.passer.Leaving, c.leaving = context.WithCancel(context.Background())
	c.passed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "swpd_cluster_passed_connections_total",
		Help: "Connections of peers that this node passed to the active node, by result: passed or refused.",
	}, []string{"result"})
	if at := o.Config.Cluster.Address; at != "" {
		c.taker, err = passing.Listen(passing.TakerOptions{
			Address: at, Own: c.key, Policy: o.Policy, OnSecurity: o.OnEvent, Work: c.run,
		})
		if err != nil {
			return nil, ListenError("cluster.address", at, err)
		}
	}
	ctx, end := context.WithCancel(context.Background())
	c.end = end
	c.work.Go(func() { c.beats(ctx) })
	return c, nil
}

// Entered reports whether this node has an address for other nodes, so that it can pass connections.
func (c *Cluster) Entered() bool { return c != nil && c.taker != nil }

// beats keeps this node listed, until ctx ends.
func (c *Cluster) beats(ctx context.Context) {
	own := pgstore.Member{Name: c.node, Certificate: c.key.Certificate[0], Version: c.o.Version, Started: c.started}
	if c.taker != nil {
		own.Address = c.address()
	}
	tick := time.NewTicker(pgstore.MemberPace)
	defer tick.Stop()
	for {
		own.Config = c.digest()
		list, err := c.o.Members.Beat(ctx, own)
		if ctx.Err() != nil {
			return
		}
		c.learn(list, err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// digest returns the digest of this node, which all nodes of an endpoint have.
func (c *Cluster) digest() string { return c.o.Latest().Digest(c.o.Self()) }

// address is the configured address with the port that the system chose.
func (c *Cluster) address() string {
	host, _, _ := net.SplitHostPort(c.o.Config.Cluster.Address)
	_, port, _ := net.SplitHostPort(c.taker.Addr().String())
	return net.JoinHostPort(host, port)
}

// learn takes over a list of the nodes.
func (c *Cluster) learn(list []pgstore.Member, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !errors.Is(err, pgstore.ErrTaken):
		c.free, c.double = time.Now(), false
	case !c.double && time.Since(c.free) > pgstore.Silence+pgstore.MemberPace: // a process that was killed has its name for a while
		c.double = true
		c.o.Log.Error("another process has the name of this node; give each node a name of its own", zap.String("node", c.node))
	}
	if list == nil {
		c.unread = err
		return
	}
	c.members, c.read, c.unread, c.differ = list, time.Now(), nil, nil
	if c.taker != nil {
		c.taker.Trust(c.trusted())
	}
	own, alive := "", make(map[string]bool)
	for _, m := range list {
		if m.Name == c.node {
			own = m.Config
		}
		alive[string(m.Certificate)] = m.Silent < lost
	}
	c.placed.gone(alive)
	for _, m := range list {
		if m.Config != own && own != "" && m.Silent < pgstore.Silence {
			c.differ = append(c.differ, m.Name)
		}
		if m.Active && m.Name != c.node && string(m.Certificate) != c.active {
			c.leave() // connections to an earlier one have no answer any more
			c.active = string(m.Certificate)
		}
	}
	if text := strings.Join(c.differ, " "); text != c.told {
		c.told = text
		if text != "" {
			c.o.Log.Warn("nodes have another configuration than this one", zap.String("nodes", text))
		}
	}
}

// trusted returns the certificates of the other nodes. The caller holds c.mu.
func (c *Cluster) trusted() (list [][]byte) {
	for _, m := range c.members {
		if m.Name != c.node && m.Silent < pgstore.Silence {
			list = append(list, m.Certificate)
		}
	}
	return list
}

// ClusterStatus describes the nodes that share a store.
type ClusterStatus struct {
	Node   string        `json:"node"`      // that answers
	Active string        `json:"active"`    // empty: none is known
	Stands bool          `json:"stands_by"` // it does so; Active can be behind by a second
	Passed int64         `json:"passed"`    // connections that the node passes to the active one
	Nodes  []ClusterNode `json:"nodes"`

	SilentAfter float64 `json:"silent_after_seconds"` // without a sign of life a node counts as dead
}

// ClusterNode is a node as the database knows it.
type ClusterNode struct {
	Name    string    `json:"name"`
	Active  bool      `json:"active"`
	Address string    `json:"address"` // for other nodes; empty: none
	Version string    `json:"version"`
	Config  string    `json:"config"` // digest
	Started time.Time `json:"started"`
	Silent  float64   `json:"silent_seconds"` // since its last sign of life
	Differs bool      `json:"differs"`        // it has another configuration than the node that answers

	// Programs is how many processes of entries with nodes: all run there; nil if the node that answers does
	// not know.
	Programs *int `json:"programs,omitempty"`
}

// Status describes the nodes; nil of nil.
func (c *Cluster) Status() *ClusterStatus {
	if c == nil {
		return nil
	}
	list, age := c.known()
	s := &ClusterStatus{Node: c.node, Passed: c.open.Load(), Nodes: []ClusterNode{}, SilentAfter: pgstore.Silence.Seconds()}
	own, programs := c.digest(), c.programs()
	for _, m := range list {
		if m.Active {
			s.Active = m.Name
		}
		one := ClusterNode{
			Name: m.Name, Active: m.Active, Address: m.Address, Version: m.Version, Config: m.Config, Started: m.Started,
			Silent: (m.Silent + age).Seconds(), Differs: m.Config != own,
		}
		if n, known := programs[m.Name]; known {
			one.Programs = &n
		}
		s.Nodes = append(s.Nodes, one)
	}
	return s
}

// known returns the nodes as last read, and how long ago that was.
func (c *Cluster) known() ([]pgstore.Member, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.members), time.Since(c.read)
}

// Peers returns the listener of connections that other nodes pass, or nil.
func (c *Cluster) Peers(errorFrames bool) transport.Listener {
	if !c.Entered() {
		return nil
	}
	return c.taker.Peers(errorFrames)
}

// HTTP returns the listener of connections of HTTP that other nodes pass, or nil.
func (c *Cluster) HTTP() net.Listener {
	if !c.Entered() {
		return nil
	}
	return c.taker.Raw()
}

// Collectors implements part.Part.
func (c *Cluster) Collectors() []prometheus.Collector {
	nodes := prometheus.NewDesc("swpd_cluster_node_silent_seconds", "Time since the last sign of life of a node, by node and whether it is active.", []string{"node", "active"}, nil)
	programs := prometheus.NewDesc("swpd_cluster_programs", "Processes of entries with nodes: all that this node runs, and those that it has placed, by node.", []string{"node"}, nil)
	return []prometheus.Collector{
		c.passed,
		collector{programs, func(out chan<- prometheus.Metric) {
			for node, n := range c.programs() {
				out <- prometheus.MustNewConstMetric(programs, prometheus.GaugeValue, float64(n), node)
			}
		}},
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "swpd_cluster_passed_connections", Help: "Connections of peers that this node passes to the active node now.",
		}, func() float64 { return float64(c.open.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "swpd_cluster_nodes_differing", Help: "Nodes with another configuration than this one.",
		}, func() float64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return float64(len(c.differ))
		}),
		collector{nodes, func(out chan<- prometheus.Metric) {
			list, age := c.known()
			for _, m := range list {
				out <- prometheus.MustNewConstMetric(nodes, prometheus.GaugeValue, (m.Silent + age).Seconds(), m.Name, fmt.Sprint(m.Active))
			}
		}},
	}
}

// collector is a prometheus.Collector of one description.
type collector struct {
	desc    *prometheus.Desc
	collect func(chan<- prometheus.Metric)
}

func (c collector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }
func (c collector) Collect(out chan<- prometheus.Metric) { c.collect(out) }

// Opened implements part.Part: the node is active, and takes connections.
func (c *Cluster) Opened() {
	if c.taker != nil {
		c.taker.Take(true)
	}
}

// Retire implements part.Part.
func (c *Cluster) Retire() {
	if c.taker != nil {
		c.taker.Take(false)
	}
}

// Look implements part.Part.
func (c *Cluster) Look(h *part.Health) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.double {
		h.Reasons = append(h.Reasons, fmt.Sprintf("cluster: another process has the name %s of this node, and is alive; give each node a name of its own", c.node))
	}
	read := c.read
	if read.IsZero() {
		read = c.started
	}
	if age := time.Since(read); age > pgstore.Silence {
		why := "the database does not answer"
		if c.unread != nil {
			why = boundlog.Clean(plain.Error(c.unread))
		}
		h.WarnWith(fmt.Sprintf("cluster: the list of nodes could not be read for %.0f s", age.Seconds()), ": "+why)
	}
	if len(c.differ) > 0 {
		h.Warn(fmt.Sprintf("cluster: other configuration than this node at %s: compare their files and the identities of their certificates, and reload or restart those that are behind", strings.Join(c.differ, ", ")))
	}
}

// Close implements part.Part.
func (c *Cluster) Close() error {
	c.Rise()
	c.end()
	c.work.Wait()
	c.over()
	c.placed.gone(nil)
	var failed error
	if c.taker != nil {
		failed = c.taker.Close()
	}
	_ = c.o.Members.Close(c.node) // without the database the row ends later
	return failed
}
