package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/pgtest"
)

// nodes is a rig of several swpd that share a PostgreSQL database: one is active, the others stand by.
// They have one configuration, and a data directory and a name each.
type nodes struct {
	*rig
	server *pgtest.Server
	made   int
	spares []*process
}

func newNodes(t *testing.T, extra string) *nodes {
	t.Helper()
	server, err := pgtest.New("", "max_connections=100")
	pgtest.Must(t, err)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	place := filepath.Join(t.TempDir(), "artifacts")
	if err := os.Mkdir(place, 0o700); err != nil {
		t.Fatal(err)
	}
	n := &nodes{server: server}
	n.rig = newRig(t, "data", fmt.Sprintf("store: 'postgres:///postgres?host=%s&user=postgres'\ncluster: {artifacts: %s}\n", server.Socket(), place)+extra)
	t.Cleanup(func() {
		for _, p := range n.spares {
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	})
	return n
}

// add starts another node.
func (n *nodes) add() *process {
	n.t.Helper()
	n.made++
	name := fmt.Sprintf("node-%d", n.made)
	p, err := n.spawn("SWPD_LOG_LEVEL=info", "SWPD_CLUSTER_NODE="+name, "SWPD_DATA="+filepath.Join(n.dir, name))
	if err != nil {
		n.t.Fatal(err)
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

// standing waits until a node stands by.
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
	if err := n.forget(); err != nil {
		n.t.Error(err)
	}
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
	old, began, ending := n.process, time.Now(), span{from: clock()}
	n.gone()
	n.signal(syscall.SIGSTOP)
	n.take(n.spares[0], life{from: clock()})
	n.spares = n.spares[1:]
	if err := n.await(); err != nil {
		n.t.Fatal(err)
	}
	took := time.Since(began)
	_ = old.cmd.Process.Signal(syscall.SIGCONT)
	n.leaves(old, "swpd: another process has taken over this node")
	ending.to = clock()
	n.lives[len(n.lives)-2].killed = ending
	n.spares = append(n.spares, n.add())
	n.standing(n.spares[0])
	return took
}

// ends notes when the active node ended.
func (n *nodes) ends(when span) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lives[len(n.lives)-1].killed = when
}

// restarted kills the database and starts it again. To the clients of the active node that is as if the
// node had been killed: what was not acknowledged may be done again.
func (n *nodes) restarted() time.Duration {
	began, away := time.Now(), span{from: clock()}
	if err := n.server.Kill(); err != nil {
		n.t.Fatal(err)
	}
	if err := n.server.Start(); err != nil {
		n.t.Fatal(err)
	}
	for late := time.Now().Add(startPatience); !n.ready(); time.Sleep(20 * time.Millisecond) {
		select {
		case <-n.ended:
			n.t.Fatalf("the active node ended when the database was killed: %s", n.log)
		default:
		}
		if time.Now().After(late) {
			n.t.Fatalf("not ready after the database was killed: %s", n.log)
		}
	}
	took := time.Since(began)
	away.to = clock()
	n.ends(away)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lives = append(n.lives, life{from: away.to})
	return took
}

// TestST01NodesThatAreKilledStoppedOrDrainedLoseNothing has several swpd on one database, under mixed
// durable load. The active one is killed, stopped for longer than its silence may be and woken, or
// drained, and the database is killed.
func TestST01NodesThatAreKilledStoppedOrDrainedLoseNothing(t *testing.T) {
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
	kinds := []struct {
		name string
		do   func() time.Duration
	}{{"killed", n.killed}, {"drained", n.drained}, {"suspended", n.suspended}, {"database killed", n.restarted}}
	for i := 0; i < len(kinds) || ctx.Err() == nil; i++ { // each once, however short the test is
		kind := kinds[i%len(kinds)]
		if i >= len(kinds) {
			kind = kinds[pick(luck)]
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
	f.report(t)
}

// pick returns a kind of fault: mostly a kill.
func pick(luck *rand.Rand) int { return max(0, luck.IntN(8)-4) }
