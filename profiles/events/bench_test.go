package events_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
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
// process: each publisher on a connection of its own, fsync on.
func BenchmarkDurablePublish(b *testing.B) {
	for _, publishers := range []int{1, 64} {
		for _, level := range []store.Durability{store.Power, store.Process} {
			for _, listeners := range []int{0, 1, 16} {
				name := fmt.Sprintf("publishers=%d/durability=%s/subscriptions=%d", publishers, level, listeners)
				b.Run(name, func(b *testing.B) { benchmarkPublish(b, publishers, listeners, level) })
			}
		}
	}
}

func benchmarkPublish(b *testing.B, publishers, listeners int, level store.Durability) {
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
	var pubs []*events.Publisher
	for range publishers {
		lane, err := caller.dial().Open(b.Context())
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
