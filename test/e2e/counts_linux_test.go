package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
)

// costs are what swpd has done, in all or for each message.
type costs struct {
	writes   float64 // calls of write and pwrite, of TLS and of the store
	switches float64 // voluntary context switches of all threads
	commits  float64 // of the store, each with one fsync
}

// costs returns what swpd has done since its start.
func (n *node) costs(t *testing.T) (c costs) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d", n.cmd.Process.Pid)
	c.writes = field(t, filepath.Join(proc, "io"), "syscw:")
	tasks, err := filepath.Glob(filepath.Join(proc, "task", "*", "status"))
	if err != nil || len(tasks) == 0 {
		t.Fatalf("the threads of swpd: %d, %v", len(tasks), err)
	}
	for _, path := range tasks {
		c.switches += field(t, path, "voluntary_ctxt_switches:")
	}
	resp, err := http.Get("http://" + n.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	c.commits = -1
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "swpd_store_commits_total "); ok {
			if c.commits, err = strconv.ParseFloat(value, 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	if c.commits < 0 {
		t.Fatal("no swpd_store_commits_total")
	}
	return c
}

// field returns the number behind a key at the begin of a line of a file.
func field(t *testing.T, path, key string) float64 {
	t.Helper()
	octets, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return 0 // the thread has ended
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(octets)) {
		if value, ok := strings.CutPrefix(line, key); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s in %s", key, path)
	return 0
}

// countedWork is what a program has swpd do.
type countedWork struct {
	name string
	n    int // messages
	do   func(ctx context.Context, c *client.Client, n int) error
	most costs // for each message
}

// abreast calls do n times, by so many goroutines.
func abreast(goroutines, n int, do func(i int) error) error {
	var g errgroup.Group
	g.SetLimit(goroutines)
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}

func echoes(goroutines int) func(context.Context, *client.Client, int) error {
	return func(ctx context.Context, c *client.Client, n int) error {
		return abreast(goroutines, n, func(int) error {
			_, err := rpc.Call(ctx, c, rpc.MethodEcho, make([]byte, 64))
			return err
		})
	}
}

// publishes publishes events, of which each is confirmed before the publisher goes on.
func publishes(publishers int) func(context.Context, *client.Client, int) error {
	return func(ctx context.Context, c *client.Client, n int) error {
		return abreast(publishers, publishers, func(p int) error {
			pub, err := c.Publisher(ctx)
			if err != nil {
				return err
			}
			defer pub.Close()
			for i := range n / publishers {
				id := fmt.Appendf(nil, "%d-%d-%d", publishers, p, i)
				err := pub.Publish(ctx, &events.Record{EventID: id, EventType: []byte("count"), Severity: []byte("info"), Timestamp: 1, MsgID: id, Body: make([]byte, 64)})
				if err == nil {
					err = pub.Sync(ctx)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// delivers publishes deliveries without waiting for each.
func delivers(dial client.Dialer) func(context.Context, *client.Client, int) error {
	return func(ctx context.Context, _ *client.Client, n int) error {
		from := make(chan *relay.Publication, n)
		for i := range n {
			from <- &relay.Publication{ID: fmt.Appendf(nil, "counted-%d", i), Topic: "count", Payload: make([]byte, 64)}
		}
		close(from)
		p := client.Publisher{Connect: dial}
		return p.Publish(ctx, from, func(*relay.Publication, relay.Receipt) error { return nil })
	}
}

// consumes consumes what delivers has published, one delivery in flight.
func consumes(dial client.Dialer) func(context.Context, *client.Client, int) error {
	return func(ctx context.Context, _ *client.Client, n int) error {
		return client.Consumer{
			Connect: dial, Topic: "count", MaxInFlight: 1, Count: uint64(n), //nolint:gosec // a small number
			Process: func(context.Context, *relay.Delivery) error { return nil },
		}.Consume(ctx)
	}
}

// TestAMessageCostsBoundedWritesSwitchesAndCommits holds what swpd does for a message against
// bounds that no load of the machine changes: more load only lets swpd do more at once.
func TestAMessageCostsBoundedWritesSwitchesAndCommits(t *testing.T) {
	n := prepared(t)
	n.admin = "127.0.0.1:0"
	n.more = "audit: {exchanges: off}\nlog: {access: off}\n"
	n.untilEnd(t)
	dial := client.To(n.tls, client.Options{Identity: client.Identity{
		Cert: filepath.Join(n.dir, "pki", "client.crt"), Key: filepath.Join(n.dir, "pki", "client.key"), CA: filepath.Join(n.dir, "pki", "ca.crt"),
	}})
	for _, w := range []countedWork{
		{"call, one in flight", 400, echoes(1), costs{writes: 1.1, switches: 6, commits: 0.02}},
		{"call, 64 in flight", 3200, echoes(64), costs{writes: 1, switches: 3, commits: 0.02}},
		{"event confirmed, one publisher", 200, publishes(1), costs{writes: 22, switches: 30, commits: 1.25}},
		{"event confirmed, 64 publishers", 1280, publishes(64), costs{writes: 11, switches: 10, commits: 0.5}},
		{"delivery published, one publisher", 640, delivers(dial), costs{writes: 11, switches: 10, commits: 0.5}},
		{"delivery consumed, one in flight", 200, consumes(dial), costs{writes: 32, switches: 30, commits: 1.25}},
	} {
		t.Run(w.name, func(t *testing.T) {
			c, err := dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			before := n.costs(t)
			if err := w.do(t.Context(), c, w.n); err != nil {
				t.Fatal(err)
			}
			after := n.costs(t)
			each := func(before, after float64) float64 { return (after - before) / float64(w.n) }
			for _, cost := range []struct {
				name      string
				got, most float64
			}{
				{"writes", each(before.writes, after.writes), w.most.writes},
				{"context switches", each(before.switches, after.switches), w.most.switches},
				{"commits", each(before.commits, after.commits), w.most.commits},
			} {
				t.Logf("%-16s %.3f, at most %.3f", cost.name, cost.got, cost.most)
				if cost.got > cost.most {
					t.Errorf("%.3f %s for a message, want at most %.3f", cost.got, cost.name, cost.most)
				}
			}
		})
	}
}
