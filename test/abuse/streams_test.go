//go:build abuse

package abuse

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/quicconn"
)

// dialQUIC connects n authenticated peers over QUIC.
func (v *victim) dialQUIC(n int) []transport.Conn {
	v.t.Helper()
	conns := make([]transport.Conn, n)
	for i := range conns {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		c, err := quicconn.Dial(ctx, v.quic, v.policy, quicconn.Options{HandshakeTimeout: time.Minute})
		cancel()
		if err != nil {
			v.t.Fatalf("dial: %v", err)
		}
		conns[i] = c
	}
	return conns
}

// TestAbuseQU03 fills all streams with the front of a frame of 8 MiB. What the
// victim holds of it comes out of one budget; what QUIC has received and nobody
// has read, 1 MiB a connection and 16 MiB more for all, comes on top, and so
// does a quarter of all that as garbage. With a budget of 192 MiB the sum stays
// within I4; with 256 MiB it was 350 to 390 MiB.
func TestAbuseQU03StreamsFullOfPartialFramesShareABudget(t *testing.T) {
	tries(t, func(t *testing.T, o *outcome) {
		v := start(t, nil, "in_flight_bytes: 192MiB")
		begin := v.memory()
		const lasts = 6 * time.Second
		g := v.meanwhile(lasts + time.Second)
		conns := v.dialQUIC(32)
		stop := time.Now().Add(lasts)
		front := append([]byte{0, 0x80, 0, 0}, make([]byte, 4<<20)...)
		var writers sync.WaitGroup
		for _, c := range conns {
			for range 64 {
				s, err := c.Open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				writers.Go(func() {
					_ = s.SetWriteDeadline(stop)
					_, _ = s.Write(front)
				})
			}
		}
		peak := 0
		for time.Now().Before(stop) {
			peak = max(peak, v.memory()-begin)
			time.Sleep(50 * time.Millisecond)
		}
		writers.Wait()
		o.say("2,048 streams of 32 connections: at most %+d MiB", peak>>20)
		o.must(peak <= resident, "I4: %d MiB at the peak, want %d at most", peak>>20, resident>>20)
		o.invariants(v, g.report(), begin)
		closeAll(conns)
	})
}

// TestAbuseQU01 resets each stream as soon as its request is out.
func TestAbuseQU01RapidResetsAreCheap(t *testing.T) {
	tries(t, func(t *testing.T, o *outcome) {
		v := start(t, nil)
		begin := v.memory()
		const lasts = 5 * time.Second
		g := v.meanwhile(lasts + time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		n, closed := 0, 0
		request := echo("reset-id", []byte("x"))
		for ctx.Err() == nil {
			c := v.dialQUIC(1)[0]
			for {
				s, err := c.Open(ctx)
				if err != nil {
					break
				}
				_, _ = s.Write(request)
				s.Reset(1)
				n++
			}
			if ctx.Err() == nil {
				closed++
			}
			_ = c.Close(0)
		}
		o.say("%.0f resets/s, %d connections closed for it", float64(n)/lasts.Seconds(), closed)
		o.invariants(v, g.report(), begin)
	})
}
