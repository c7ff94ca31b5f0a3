package endpoint_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// TestInlineExchangeDoesNotAllocate is the promise: reading a frame, decoding
// its envelope, dispatching it and answering inline costs no allocation.
func TestInlineExchangeDoesNotAllocate(t *testing.T) {
	for _, size := range []int{0, 64, 4096, 20 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			r := newRigQuiet(t)
			one := framed(request("0123456789abcdef", string(make([]byte, size))))
			n := max(1, 32<<10/len(one))
			batch := bytes.Repeat(one, n)
			round := func() {
				r.write(t, batch)
				for range n {
					if _, err := r.in.Next(); err != nil {
						t.Fatal(err)
					}
				}
			}
			round() // buffers come from the pools once
			perMessage := testing.AllocsPerRun(200, round) / float64(n)
			// A garbage collection during the run empties the pools; that is
			// a few allocations in all, not one for each message.
			if limit := 0.05; perMessage > limit && n > 1 || n == 1 && perMessage >= 1 {
				t.Errorf("%.3f allocations per message, want 0", perMessage)
			}
		})
	}
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
