package events_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

// BenchmarkDurablePublish is an EVT_PUBLISH of 256 octets and its swp.sync, one
// pair in flight per publisher, over TLS on loopback with everything in this
// process.
func BenchmarkDurablePublish(b *testing.B) {
	for _, load := range []struct{ publishers, connections, subscriptions int }{
		{1, 1, 0}, {1, 1, 1}, {64, 1, 0}, {64, 1, 1}, {64, 64, 0}, {64, 64, 1}, {64, 64, 16},
	} {
		for _, level := range []store.Durability{store.Power, store.Process} {
			name := fmt.Sprintf("%s/publishers=%d/connections=%d/subscriptions=%d", level, load.publishers, load.connections, load.subscriptions)
			b.Run(name, func(b *testing.B) {
				benchmarkPublish(b, load.publishers, load.connections, load.subscriptions, level)
			})
		}
	}
}

func benchmarkPublish(b *testing.B, publishers, connections, listeners int, level store.Durability) {
	engine, err := sqlstore.Open(b.Context(), sqlstore.Options{Dir: b.TempDir(), Durability: level})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { engine.Close() })
	bus := newBus(b, events.Options{Store: engine})
	calls, err := rpc.New(rpc.Options{})
	if err != nil {
		b.Fatal(err)
	}
	registry, err := profiles.NewRegistry(bus.Profile(), calls)
	if err != nil {
		b.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: registry})
	if err != nil {
		b.Fatal(err)
	}
	ca := transporttest.NewCA(b)
	ln := transporttest.Listen(b, "tls", ca.Policy(b, transporttest.Server), nil)
	var serving sync.WaitGroup
	serving.Go(func() { _ = ep.Serve(context.Background(), ln) })
	b.Cleanup(func() {
		_ = ep.Close()
		serving.Wait()
	})
	caller := benchCaller{b, registry, ca.Policy(b, transporttest.Client), ln.Addr().String()}
	for range listeners {
		sub, err := events.Open(b.Context(), caller.dial(), events.SubscribeOptions{})
		if err != nil {
			b.Fatal(err)
		}
		go func() {
			for {
				if _, err := sub.Recv(context.Background()); err != nil {
					return
				}
			}
		}()
	}
	var sessions []*endpoint.Session
	for range connections {
		sessions = append(sessions, caller.dial())
	}
	var pubs []*events.Publisher
	for i := range publishers {
		lane, err := sessions[i%connections].Open(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		pubs = append(pubs, events.NewPublisher(lane, func(ctx context.Context, lane profiles.Lane) error {
			_, err := rpc.Call(ctx, lane, rpc.MethodSync, nil)
			return err
		}))
	}
	var next atomic.Int64
	var publishing sync.WaitGroup
	run := fmt.Sprint(time.Now().UnixNano())
	b.ReportAllocs()
	b.ResetTimer()
	before := processorTime(b)
	for i, pub := range pubs {
		publishing.Go(func() {
			r := record("")
			r.Body = make([]byte, 256)
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				r.EventID = fmt.Appendf(r.EventID[:0], "%s.%d.%d", run, i, n)
				if err := pub.Publish(b.Context(), &r); err != nil {
					b.Error(err)
					return
				}
				if err := pub.Sync(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	publishing.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
	for _, pub := range pubs {
		pub.Close()
	}
}

// benchCaller dials connections that end with the benchmark.
type benchCaller struct {
	b        *testing.B
	registry *profiles.Registry
	policy   *transport.Policy
	addr     string
}

func (c benchCaller) dial() *endpoint.Session {
	c.b.Helper()
	conn, err := transporttest.Dial(c.b.Context(), "tls", c.addr, c.policy)
	if err != nil {
		c.b.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: c.registry})
	if err != nil {
		c.b.Fatal(err)
	}
	c.b.Cleanup(func() { _ = ep.Close() })
	return ep.Attach(conn)
}

// processorTime is what this process has used: on a machine that does other
// work, too, it says more than the clock.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPublishBesideOthers publishes live events beside subscriptions to another type.
// cpu-ns/op has the work of those subscriptions.
func BenchmarkPublishBesideOthers(b *testing.B) {
	for _, others := range []int{0, 4096} {
		b.Run(fmt.Sprint("subscriptions=", others), func(b *testing.B) {
			s := serve(b, "pipe", events.Options{}, endpoint.Bounds{})
			var p *peer
			for i := range others {
				if i%256 == 0 {
					p = s.dial(subscriber)
				}
				p.subscribe(b, events.SubscribeOptions{Filter: fmt.Sprint("type:other.", i)})
			}
			b.ReportAllocs()
			b.ResetTimer()
			before := processorTime(b)
			for i := range b.N {
				r := record(fmt.Sprint(i))
				if err := s.bus.Publish(b.Context(), "me", &r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}
