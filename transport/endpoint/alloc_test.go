package endpoint_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// TestInlineExchangeDoesNotAllocate is the promise: reading a frame, decoding
// its envelope, dispatching it and answering inline costs no allocation.
func TestInlineExchangeDoesNotAllocate(t *testing.T) {
	effort.Unwatched(t) // under the race detector pools forget at random
	for _, size := range []int{0, 64, 4096, 20 << 10, 1 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			reg, err := profiles.NewRegistry(profile(echo))
			if err != nil {
				t.Fatal(err)
			}
			ep, err := endpoint.New(endpoint.Options{Registry: reg})
			if err != nil {
				t.Fatal(err)
			}
			conn := newTreadmill()
			ep.Attach(conn)
			defer func() { _ = ep.Close() }()
			one := framed(request("0123456789abcdef", string(make([]byte, size))))
			n := max(4, 64<<10/len(one))
			batch := bytes.Repeat(one, n)
			conn.run(batch) // the first buffers come from the pools
			allocs := testing.AllocsPerRun(100, func() { conn.run(batch) })
			if allocs >= 1 {
				t.Errorf("%.0f allocations for %d messages of %d octets, want 0", allocs, n, size)
			}
		})
	}
}

// treadmill is a connection that feeds an endpoint the same octets over and
// over and counts what comes back, without allocating.
type treadmill struct {
	transport.Stream // nil: what is not below is not called
	ctx              context.Context
	cancel           context.CancelFunc
	feed             chan []byte
	rest             []byte
	left             int
	due              int // octets that come back for a batch; 0: as many as it has
	done             chan struct{}
}

func newTreadmill() *treadmill {
	c := &treadmill{feed: make(chan []byte), done: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// run has the endpoint read batch and returns when as many octets came back:
// echoes are as long as what they answer, but for the timestamp of 6 octets
// where the request has 1.
func (c *treadmill) run(batch []byte) {
	c.feed <- batch
	<-c.done
}

func (c *treadmill) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		select {
		case c.rest = <-c.feed:
			c.left = cmp.Or(c.due, len(c.rest))
		case <-c.ctx.Done():
			return 0, io.EOF
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *treadmill) Write(p []byte) (int, error) {
	before := c.left
	if c.left -= len(p); c.left <= 0 && before > 0 && len(c.rest) == 0 {
		c.done <- struct{}{}
	}
	return len(p), nil
}

func (c *treadmill) Peer() *transport.Peer {
	return &transport.Peer{Identity: "test", Transport: "pipe"}
}
func (c *treadmill) Multiplexed() bool { return false }
func (c *treadmill) Open(context.Context) (transport.Stream, error) {
	return c, nil
}
func (c *treadmill) Context() context.Context         { return c.ctx }
func (c *treadmill) Close(uint64) error               { c.cancel(); return nil }
func (c *treadmill) SetReadDeadline(time.Time) error  { return nil }
func (c *treadmill) SetWriteDeadline(time.Time) error { return nil }
func (c *treadmill) CloseWrite() error                { return nil }
func (c *treadmill) Accept(context.Context) (transport.Stream, error) {
	return c, nil
}

// newRigQuiet is a rig whose endpoint has no observer.
func newRigQuiet(tb testing.TB) *rig {
	tb.Helper()
	reg, err := profiles.NewRegistry(profile(echo))
	if err != nil {
		tb.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: reg})
	if err != nil {
		tb.Fatal(err)
	}
	here, there := transport.Pipe()
	r := &rig{ep: ep, conn: there, sess: ep.Attach(here)}
	tb.Cleanup(func() { _ = ep.Close() })
	r.open(tb)
	return r
}

func BenchmarkPipeline(b *testing.B) {
	r := newRigQuiet(b)
	one := framed(request("0123456789abcdef", string(make([]byte, 64))))
	const n = 256
	batch := bytes.Repeat(one, n)
	b.ReportAllocs()
	for i := 0; i < b.N; i += n {
		r.write(b, batch)
		for range n {
			if _, err := r.in.Next(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkCall(b *testing.B) {
	reg, err := profiles.NewRegistry(profile(echo))
	if err != nil {
		b.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: reg})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = ep.Close() }()
	here, there := transport.Pipe()
	ep.Attach(here)
	s := ep.Attach(there)
	payload := make([]byte, 64)
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		for pb.Next() {
			c, err := s.Call(ctx, e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: payload})
			if err != nil {
				b.Error(err)
				return
			}
			if _, err := c.Recv(ctx); err != nil {
				b.Error(err)
			}
			c.Close()
		}
	})
}
