package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/internal/netcut"
	"github.com/slimwire/swp/internal/pgtest"
)

// nodes is a rig of several swpd that share a PostgreSQL database: one is active, the others stand by.
// They have one configuration, and a data directory and a name each. Where it is permitted, each of them
// and the database are hosts in a network, so that the link between two can be cut.
type nodes struct {
	*rig
	primary *database
	standby *database
	free    chan *netcut.Host // for nodes; nil: there are no hosts
	luck    *rand.Rand        // which direction of a link is cut
	cuts    [3]int            // forth, back, both
	made    int
	spares  []*process
}

// database is a PostgreSQL server, and how one is started at its place.
type database struct {
	*pgtest.Server
	options pgtest.Options
	host    *netcut.Host // nil: there are no hosts
}

// newDatabase prepares a server, which is closed with the test.
func newDatabase(t *testing.T) *database {
	t.Helper()
	dir, err := os.MkdirTemp("", "pg") // a path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	d := &database{options: pgtest.Options{Dir: dir, Settings: []string{"max_connections=100"}}, host: newHost(t)}
	if d.host != nil {
		d.options.Address, d.options.Launch = d.host.Addr(), func(c *exec.Cmd) error { return d.host.Do(c.Start) }
	}
	t.Cleanup(func() {
		if d.Server == nil {
			_ = os.RemoveAll(dir)
		} else if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// follow starts a synchronous standby of a primary at the place of a server.
func (d *database) follow(t *testing.T, primary *database) {
	t.Helper()
	if d.Server != nil {
		if err := errors.Join(d.Close(), os.Mkdir(d.options.Dir, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	d.Server, err = primary.Standby(t.Context(), d.options)
	pgtest.Must(t, err)
}

func newNodes(t *testing.T, extra string) *nodes {
	t.Helper()
	n := &nodes{primary: newDatabase(t), standby: newDatabase(t), luck: chances(t.Name() + " cuts")}
	var pki devpki.Options
	if n.primary.host != nil {
		n.free = make(chan *netcut.Host, nodeHosts)
		for range nodeHosts {
			h := newHost(t)
			n.free <- h
			pki.Hosts = append(pki.Hosts, h.Addr())
		}
	}
	var err error
	n.primary.Server, err = pgtest.With(n.primary.options)
	pgtest.Must(t, err)
	n.standby.follow(t, n.primary)
	place := filepath.Join(t.TempDir(), "artifacts")
	if err := os.Mkdir(place, 0o700); err != nil {
		t.Fatal(err)
	}
	n.rig = newRigOf(t, keptDir(t, "nodes"), pki, "data", fmt.Sprintf(
		"store: 'postgres:///postgres?host=%s,%s&user=postgres&target_session_attrs=read-write'\ncluster: {artifacts: %s}\n",
		n.primary.Host(), n.standby.Host(), place)+extra)
	t.Cleanup(func() {
		for _, p := range n.spares {
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	})
	return n
}

// nodeHosts is the number of hosts for nodes: one is active, one stands by, and one ends.
const nodeHosts = 3

// newHost returns another host, or nil where there can be none.
func newHost(t *testing.T) *netcut.Host {
	t.Helper()
	h, err := netcut.NewHost()
	switch {
	case errors.Is(err, netcut.ErrMissing):
		t.Logf("no link is cut: %v", err)
		return nil
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// add starts another node, at a host whose node has ended.
func (n *nodes) add() *process {
	n.t.Helper()
	n.made++
	name := fmt.Sprintf("node-%d", n.made)
	at := filepath.Join(n.dir, name)
	if err := os.Mkdir(at, 0o700); err != nil {
		n.t.Fatal(err)
	}
	env := []string{"SWPD_LOG_LEVEL=info", "SWPD_CLUSTER_NODE=" + name, "SWPD_DATA=" + filepath.Join(at, "data")}
	var host *netcut.Host
	if n.free != nil {
		host = <-n.free
		env = append(env, "SWPD_CLUSTER_ADDRESS="+host.Addr()+":7783")
		for i, scheme := range []string{tlsScheme, quicScheme} {
			env = append(env, fmt.Sprintf("SWPD_LISTENERS_%d_ADDRESS=%s://%s:0", i, scheme, host.Addr()))
		}
	}
	p, err := n.spawn(host, at, env...)
	if err != nil {
		n.t.Fatal(err)
	}
	if host != nil {
		go func() {
			<-p.ended
			n.free <- host
		}()
	}
	return p
}

// begin starts the first node, waits until it is active, and starts a node that stands by.
func (n *nodes) begin() {
	n.t.Helper()
	n.take(n.add(), life{from: clock()})
	if err := n.await(); err != nil {
		n.t.Fatal(err)
	}
	n.spares = append(n.spares, n.add())
	n.standing(n.spares[0])
}

// await waits until the active node, which may have stood by, is ready.
func (n *nodes) await() error {
	for late := time.Now().Add(startPatience); !strings.Contains(n.log.String(), `"msg":"serving"`); time.Sleep(2 * time.Millisecond) {
		select {
		case <-n.ended:
			return fmt.Errorf("a node ended before it was active: %s", n.log)
		default:
		}
		if time.Now().After(late) {
			return fmt.Errorf("a node is not active after %v: %s", startPatience, n.log)
		}
	}
	return n.rig.await()
}

// standing waits until a node stands by. Where nodes are hosts, it then passes connections.
func (n *nodes) standing(p *process) {
	n.t.Helper()
	for late := time.Now().Add(startPatience); !strings.Contains(p.log.String(), "standing by"); time.Sleep(5 * time.Millisecond) {
		select {
		case <-p.ended:
			n.t.Fatalf("a node ended instead of standing by: %s", p.log)
		default:
		}
		if time.Now().After(late) {
			n.t.Fatalf("a node does not stand by: %s", p.log)
		}
	}
	entry := ""
	for late := time.Now().Add(startPatience); n.free != nil && entry == ""; time.Sleep(5 * time.Millisecond) {
		entry = addresses(p.at)[tlsScheme]
		if time.Now().After(late) {
			n.t.Fatalf("a node that stands by passes no connections: %s", p.log)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.entry = entry
}

// follow waits until the node that stands by is active, and starts another one. It returns how long
// that took since a moment.
func (n *nodes) follow(since time.Time) time.Duration {
	n.t.Helper()
	n.take(n.spares[0], life{from: clock()})
	n.spares = n.spares[1:]
	if err := n.await(); err != nil {
		n.t.Fatal(err)
	}
	took := time.Since(since)
	n.spares = append(n.spares, n.add())
	n.standing(n.spares[0])
	return took
}

// leaves waits until a process has ended by itself.
func (n *nodes) leaves(p *process, with string) {
	n.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(startPatience):
		n.t.Fatalf("the node does not end: %s", p.log)
	}
	if !strings.Contains(p.log.String(), with) {
		n.t.Errorf("the log of the node that ended does not say %q: %s", with, p.log)
	}
}

// gone notes that the active node is no more, before another takes its place.
func (n *nodes) gone() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs = nil
}

// The faults of nodes.
func (n *nodes) killed() time.Duration {
	n.gone()
	began := time.Now()
	n.kill()
	return n.follow(began)
}

func (n *nodes) drained() time.Duration {
	old, began, ending := n.process, time.Now(), span{from: clock()}
	n.gone()
	n.signal(syscall.SIGTERM)
	n.leaves(old, "stopped")
	ending.to = clock()
	n.ends(ending)
	return n.follow(began)
}

// suspended stops a node for longer than its silence may be, and wakes it after another one has taken
// over.
func (n *nodes) suspended() time.Duration {
	return n.parted(func() (back func()) {
		old := n.process
		n.signal(syscall.SIGSTOP)
		return func() { _ = old.cmd.Process.Signal(syscall.SIGCONT) }
	})
}

// cutOff cuts the link of a node to the database for longer than its silence may be, until another one
// has taken over.
func (n *nodes) cutOff() time.Duration {
	return n.parted(func() (back func()) { return n.cut(n.process.host, n.primary.host) })
}

// parted has the active node be away until another one has taken over. When it is back, it must end.
func (n *nodes) parted(away func() (back func())) time.Duration {
	old, began, ending := n.process, time.Now(), span{from: clock()}
	n.gone()
	back := away()
	n.take(n.spares[0], life{from: clock()})
	n.spares = n.spares[1:]
	if err := n.await(); err != nil {
		n.t.Fatal(err)
	}
	took := time.Since(began)
	back()
	n.leaves(old, takenOver)
	ending.to = clock()
	n.lives[len(n.lives)-2].killed = ending
	n.spares = append(n.spares, n.add())
	n.standing(n.spares[0])
	return took
}

// takenOver is what a node says that ends because another one is active.
const takenOver = "swpd: another process has taken over this node"

// cut cuts a link between two hosts, in one direction or both.
func (n *nodes) cut(a, b *netcut.Host) (mend func()) {
	n.t.Helper()
	ends := [][2]*netcut.Host{{a, b}, {b, a}}
	which := n.luck.IntN(3)
	n.cuts[which]++
	if which < 2 {
		ends = ends[which : which+1]
	}
	var mends []func() error
	for _, end := range ends {
		one, err := netcut.Cut(end[0], end[1])
		if err != nil {
			n.t.Fatal(err)
		}
		mends = append(mends, one)
	}
	return func() {
		for _, one := range mends {
			if err := one(); err != nil {
				n.t.Fatal(err)
			}
		}
	}
}

// shortCut is less than the silence after which another node takes over, even if a segment is sent
// again only after twice that time.
const shortCut = 2 * time.Second

// longCut is the difference of a long cut between nodes, which may end connections, to a short one.
const longCut = 20 * time.Second

// cutShortly cuts the link of a node to the database for less than its silence may be.
func (n *nodes) cutShortly() time.Duration {
	return n.outage(func() {
		mend := n.cut(n.process.host, n.primary.host)
		time.Sleep(shortCut) // the fault is its length
		mend()
	})
}

// cutBetween cuts the link between the active node and the one that passes connections to it.
func (n *nodes) cutBetween() time.Duration {
	cut := len(n.past()) - 1
	took := n.outage(func() {
		mend := n.cut(n.process.host, n.spares[0].host)
		time.Sleep(shortCut + upTo(n.luck, longCut)) // the fault is its length
		mend()
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lives[cut].stalls = true
	return took
}

// ends notes when the active node ended.
func (n *nodes) ends(when span) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lives[len(n.lives)-1].killed = when
}

// restarted kills the database and starts it again.
func (n *nodes) restarted() time.Duration {
	return n.outage(func() {
		if err := n.primary.Kill(); err != nil {
			n.t.Fatal(err)
		}
		if err := n.primary.Start(); err != nil {
			n.t.Fatal(err)
		}
	})
}

// failedOver kills the primary and promotes the standby. A copy of the new primary takes the place of the
// old one.
func (n *nodes) failedOver() time.Duration {
	took := n.outage(func() {
		if err := n.primary.Kill(); err != nil {
			n.t.Fatal(err)
		}
		if err := n.standby.Promote(n.t.Context()); err != nil {
			n.t.Fatal(err)
		}
		n.primary, n.standby = n.standby, n.primary
	})
	n.standby.follow(n.t, n.primary)
	return took
}

// outage has the active node miss the database for a time after which it goes on, unless the machine is
// so busy that another one takes over. To its clients that is as if it had been killed: work without an
// acknowledgement may be done again.
func (n *nodes) outage(fault func()) time.Duration {
	old, began, away := n.process, time.Now(), span{from: clock()}
	epoch, _ := n.heard()
	fault()
	over := time.Now()
	now, last := n.heard()
	for late := over.Add(startPatience); !last.After(over); now, last = n.heard() {
		if time.Now().After(late) {
			n.t.Fatalf("no node writes after the database was away: %s", old.log)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if now != epoch {
		n.t.Logf("after %v without the database another node is active", over.Sub(began))
		n.mu.Lock()
		n.addrs = nil
		n.mu.Unlock()
		n.leaves(old, takenOver)
		away.to = clock()
		n.ends(away)
		return n.follow(began)
	}
	if err := n.rig.await(); err != nil {
		n.t.Fatal(err)
	}
	took := time.Since(began)
	away.to = clock()
	n.ends(away)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lives = append(n.lives, life{from: away.to})
	return took
}

// heard returns the epoch of the active node, and when it has written last.
func (n *nodes) heard() (epoch int64, at time.Time) {
	n.t.Helper()
	c, err := pgx.Connect(n.t.Context(), n.primary.DSN("postgres"))
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(n.t.Context())) }()
	if err := c.QueryRow(n.t.Context(), "SELECT epoch, heartbeat FROM swp.node").Scan(&epoch, &at); err != nil {
		n.t.Fatal(err)
	}
	return epoch, at
}

// TestST01NodesThatFailOrAreCutOffLoseNothing has several swpd on one database, under
// mixed durable load. The active one is killed, drained, stopped or cut off from the database for longer
// than its silence may be, and cut off for a shorter time. The database is killed, and fails over to its
// synchronous standby.
func TestST01NodesThatFailOrAreCutOffLoseNothing(t *testing.T) {
	beside(t)
	sown(t)
	d := howLong(t)
	f := new(faults)
	journals := keptDir(t, "journals")
	n := newNodes(t, workConfig(t, journals)+relayConfig())
	work := []workload{newWorking(t, f, n.rig, journals, 4), newChanging(f, 4), newRelaying(t, f, n.rig, 4)}
	n.begin()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	life, stop := context.WithTimeout(t.Context(), d+afterLoad)
	defer stop()
	var all sync.WaitGroup
	for _, w := range work {
		all.Go(func() { w.run(ctx, life, n.dial) })
	}
	luck, times := chances(t.Name()), make(map[string][]time.Duration)
	type kind struct {
		name string
		do   func() time.Duration
	}
	kinds := []kind{{"killed", n.killed}, {"drained", n.drained}, {"suspended", n.suspended}, {"database killed", n.restarted}, {"database failed over", n.failedOver}}
	if n.free != nil {
		kinds = append(kinds, kind{"cut off", n.cutOff}, kind{"cut shortly", n.cutShortly}, kind{"cut between nodes", n.cutBetween})
	}
	for i := 0; i < len(kinds) || ctx.Err() == nil; i++ { // each once, however short the test is
		kind := kinds[i%len(kinds)]
		if i >= len(kinds) {
			kind = kinds[pick(luck, len(kinds))]
		}
		wait(ctx, 200*time.Millisecond+upTo(luck, 1500*time.Millisecond))
		times[kind.name] = append(times[kind.name], kind.do())
	}
	all.Wait()
	for _, w := range work {
		w.check(life, n.dial)
		t.Logf("%s", w)
	}
	for _, kind := range kinds {
		list := times[kind.name]
		t.Logf("%s: %d times, ready after %v in the middle, %v at most", kind.name, len(list), median(list), slices.Max(list))
	}
	t.Logf("links cut: %d times from the active node, %d times to it, %d times both", n.cuts[0], n.cuts[1], n.cuts[2])
	f.report(t)
}

// pick returns one of some kinds of faults: mostly the first.
func pick(luck *rand.Rand, kinds int) int { return max(0, luck.IntN(2*kinds)-kinds) }
