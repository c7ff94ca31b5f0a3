//go:build abuse

package abuse

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/tlsconn"
)

// dial connects n authenticated peers, 32 at a time.
func (v *victim) dial(n int) []transport.Conn {
	v.t.Helper()
	conns := make([]transport.Conn, n)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 32)
	for i := range conns {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			c, err := tlsconn.Dial(ctx, v.tls, v.policy, tlsconn.Options{HandshakeTimeout: time.Minute})
			if err != nil {
				v.t.Errorf("dial: %v", err)
				return
			}
			conns[i] = c
		})
	}
	wg.Wait()
	if v.t.Failed() {
		v.t.FailNow()
	}
	return conns
}

func closeAll(conns []transport.Conn) {
	for _, c := range conns {
		_ = c.Close(0)
	}
}

func write(t *testing.T, c transport.Conn, b []byte) {
	t.Helper()
	s, err := c.Open(t.Context())
	if err == nil {
		_, err = s.Write(b)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// settle waits until the victim has closed what belonged to peers that left.
func (v *victim) settle(descriptors int) bool {
	for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(50 * time.Millisecond) {
		if v.descriptors() <= descriptors+2 {
			return true
		}
	}
	return false
}

func TestAbuseFR03PrefixesOfLargeFramesReserveNothing(t *testing.T) {
	tries(t, func(t *testing.T, o *outcome) {
		v := start(t, nil)
		files := v.descriptors()
		begin := v.memory()
		g := v.meanwhile(12 * time.Second)
		for range 3 {
			conns := v.dial(300)
			for _, c := range conns {
				write(t, c, []byte{0, 0x80, 0, 0})
			}
			closeAll(conns)
		}
		r := g.report()
		o.must(v.settle(files), "I3: %d descriptors, %d before", v.descriptors(), files)
		grown := v.memory() - begin
		o.say("after wave 3: %+d MiB", grown>>20)
		o.must(grown <= 40<<20, "%d MiB more after wave 3, want 40 at most", grown>>20)
		o.invariants(v, r, begin)
	})
}

func TestAbuseFR05SlowBodiesAreCheap(t *testing.T) {
	tries(t, func(t *testing.T, o *outcome) {
		v := start(t, nil)
		conns := v.dial(500)
		for _, c := range conns {
			write(t, c, echo("warm-up-", nil))
		}
		begin := v.memory()
		g := v.meanwhile(10 * time.Second)
		stop := time.Now().Add(9 * time.Second)
		for _, c := range conns {
			write(t, c, []byte{0, 0x80, 0, 0})
		}
		for time.Now().Before(stop) {
			time.Sleep(2 * time.Second)
			for _, c := range conns {
				write(t, c, []byte{1})
			}
		}
		grown := v.memory() - begin
		o.say("500 slow peers: %+d MiB", grown>>20)
		o.must(grown <= 40<<20, "%d MiB for 500 slow peers, want 40 at most", grown>>20)
		o.invariants(v, g.report(), begin)
		closeAll(conns)
	})
}

// TestAbuseTL02 floods the port with octets that are not TLS. The senders share
// the cores with the victim, so what it can absorb follows from the processor
// time that it needs for each.
func TestAbuseTL02NoiseOnThePortIsAbsorbed(t *testing.T) {
	tries(t, func(t *testing.T, o *outcome) {
		const lasts = 5 * time.Second
		v := start(t, nil)
		begin := v.memory()
		used := v.cpu()
		n := v.noise(lasts)
		each := (v.cpu() - used) / time.Duration(max(1, n))
		could := float64(runtime.NumCPU()) / each.Seconds()
		o.say("%.0f connections/s came, %v each: %.0f/s on all cores", float64(n)/lasts.Seconds(), each, could)
		o.must(could >= 15_000, "%.0f connections/s, want 15,000 at least", could)

		g := v.meanwhile(lasts + time.Second)
		v.noise(lasts)
		o.invariants(v, g.report(), begin)
	})
}

// noise sends something that is not TLS on as many connections as can be
// opened for d, and returns how many that were.
func (v *victim) noise(d time.Duration) int64 {
	var done atomic.Int64
	stop := time.Now().Add(d)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for time.Now().Before(stop) {
				c, err := net.Dial("tcp", v.tls)
				if err != nil {
					continue
				}
				_ = c.(*net.TCPConn).SetLinger(0) // no port stays in TIME_WAIT
				_, _ = io.WriteString(c, "GET / HTTP/1.1\r\n\r\n")
				_, _ = c.Read(make([]byte, 64))
				_ = c.Close()
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return done.Load()
}

// TestAbuseTL05 holds connections that never finish their handshake.
func TestAbuseTL05SilentPeersDelayNobody(t *testing.T) {
	tries(t, func(t *testing.T, o *outcome) {
		v := start(t, nil)
		begin := v.memory()
		var silent []net.Conn
		defer func() {
			for _, c := range silent {
				_ = c.Close()
			}
		}()
		closeAll(v.dial(1)) // a flood keeps out addresses from which nobody has authenticated, at random
		g := v.meanwhile(5 * time.Second)
		for i := range 2000 {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%4))}}
			c, err := d.Dial("tcp", v.tls)
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 1 {
				_, _ = c.Write([]byte{22, 3, 1, 2, 0, 1})
			}
			silent = append(silent, c)
		}
		began := time.Now()
		closeAll(v.dial(1))
		took := time.Since(began)
		o.say("handshake of a good peer beside 2,000 silent ones: %v", took)
		o.must(took <= time.Second, "a good peer's handshake took %v, want 1 s at most", took)
		o.invariants(v, g.report(), begin)
		// Each silent one is gone 11 s after it came.
		_ = silent[0].SetReadDeadline(time.Now().Add(time.Second))
		last := silent[len(silent)-1]
		_ = last.SetReadDeadline(time.Now().Add(11 * time.Second))
		_, err := last.Read(make([]byte, 1))
		o.must(err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "a silent connection was still open after 11 s")
	})
}

// TestAbuseTL06 reconnects as fast as it can with a bad frame each time.
func TestAbuseTL06ReconnectingPeersAreHandled(t *testing.T) {
	tries(t, func(t *testing.T, o *outcome) {
		v := start(t, nil)
		begin := v.memory()
		const lasts = 5 * time.Second
		g := v.meanwhile(lasts + time.Second)
		var done atomic.Int64
		ctx, cancel := context.WithTimeout(context.Background(), lasts)
		defer cancel()
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				for ctx.Err() == nil {
					c, err := tlsconn.Dial(ctx, v.tls, v.policy, tlsconn.Options{})
					if err != nil {
						continue
					}
					if s, err := c.Open(ctx); err == nil {
						_, _ = s.Write(make([]byte, frame.HeaderSize))
						_, _ = s.Read(make([]byte, 1))
					}
					_ = c.Close(0)
					done.Add(1)
				}
			})
		}
		wg.Wait()
		rate := float64(done.Load()) / lasts.Seconds()
		o.say("%.0f cycles/s with the attackers on the same cores", rate)
		o.must(rate >= 500, "%.0f cycles/s, want 500 at least", rate)
		o.invariants(v, g.report(), begin)
	})
}

// TestAbuseQU04 sends Initials from ports that never answer.
func TestAbuseQU04SpoofedInitialsAreNotAmplified(t *testing.T) {
	tries(t, func(t *testing.T, o *outcome) {
		v := start(t, nil)
		begin := v.memory()
		g := v.meanwhile(6 * time.Second)
		var sent, received atomic.Int64
		for range 20 {
			c, err := net.Dial("udp", v.quic)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for buf := make([]byte, 2048); ; {
					_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					received.Add(int64(n))
				}
			}()
			for range 500 {
				p := make([]byte, 1200)
				_, _ = rand.Read(p)
				copy(p, []byte{0xc3, 0, 0, 0, 1, 8}) // a long header: Initial, version 1, 8 octets of id
				p[14] = 0                            // no source id
				p[15] = 0                            // no token
				n, err := c.Write(p)
				if err == nil {
					sent.Add(int64(n))
				}
			}
			<-done
			_ = c.Close()
		}
		factor := float64(received.Load()) / float64(sent.Load())
		o.say("%d octets sent, %d came back", sent.Load(), received.Load())
		o.must(factor <= 3, "amplified %.1f times, want 3 at most", factor)
		o.invariants(v, g.report(), begin)
	})
}

func TestAbuseRS01AFloodIsThrottled(t *testing.T) {
	tries(t, func(t *testing.T, o *outcome) {
		v := start(t, nil)
		begin := v.memory()
		const lasts = 6 * time.Second
		g := v.meanwhile(lasts + time.Second)
		conns := v.dial(1)
		s, err := conns[0].Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var answers atomic.Int64
		read := make(chan struct{})
		go func() {
			defer close(read)
			for r := frame.NewReader(s, frame.Options{}); ; {
				if _, err := r.Next(); err != nil {
					return
				}
				answers.Add(1)
			}
		}()
		batch := make([]byte, 0, 64<<10)
		for range 256 {
			batch = append(batch, echo("flood-id", []byte("x"))...)
		}
		_ = s.SetWriteDeadline(time.Now().Add(lasts))
		began := time.Now()
		for time.Since(began) < lasts {
			if _, err := s.Write(batch); err != nil {
				break
			}
		}
		rate := float64(answers.Load()) / lasts.Seconds()
		closeAll(conns)
		<-read
		// The burst of 40,000 is on top of 20,000 a second.
		limit := 20_000 + 40_000/lasts.Seconds()
		o.say("%.0f answers/s of a flood, bucket %.0f/s", rate, limit)
		o.must(rate <= limit*1.05, "%.0f answers/s, want %.0f at most", rate, limit)
		o.invariants(v, g.report(), begin)
	})
}

func TestAbuseRS03LargeFramesStayWithinTheMemoryLimit(t *testing.T) {
	tries(t, func(t *testing.T, o *outcome) {
		v := start(t, []string{"GOMEMLIMIT=512MiB"})
		begin := v.memory()
		g := v.meanwhile(12 * time.Second)
		conns := v.dial(40)
		var wg sync.WaitGroup
		payload := make([]byte, 8<<20-64<<10)
		for _, c := range conns {
			wg.Go(func() {
				s, err := c.Open(context.Background())
				if err != nil {
					return
				}
				_ = s.SetWriteDeadline(time.Now().Add(8 * time.Second))
				go func() { _, _ = io.Copy(io.Discard, reader{s}) }()
				_, _ = s.Write(echo("large-id", payload))
			})
		}
		wg.Wait()
		o.invariants(v, g.report(), begin)
		closeAll(conns)
		// It recovers without a restart.
		again := v.meanwhile(time.Second).report()
		o.say("afterwards p99 %v", again.Latency.P99)
	})
}

type reader struct{ transport.Stream }

func TestAbuseRS04AStormOfReconnectsIsServed(t *testing.T) {
	tries(t, func(t *testing.T, o *outcome) {
		v := start(t, nil)
		files := v.descriptors()
		begin := v.memory()
		began := time.Now()
		conns := v.dial(2000)
		took := time.Since(began)
		o.say("2,000 peers connected in %v", took)
		o.must(took <= 10*time.Second, "the storm took %v, want 10 s at most", took)
		r := v.meanwhile(time.Second).report()
		closeAll(conns)
		o.must(v.settle(files), "I3: %d descriptors, %d before", v.descriptors(), files)
		o.invariants(v, r, begin)
	})
}

func TestAbuseRS05AReaderThatStopsIsClosed(t *testing.T) {
	tries(t, func(t *testing.T, o *outcome) {
		v := start(t, nil, "frame_rate: 0")
		begin := v.memory()
		g := v.meanwhile(14 * time.Second)
		conns := v.dial(1)
		s, err := conns[0].Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		big := echo("never-rd", make([]byte, 1<<20))
		_ = s.SetWriteDeadline(time.Now().Add(13 * time.Second))
		for range 100 { // 100 MiB of answers are due; none is read
			if _, err = s.Write(big); err != nil {
				break
			}
		}
		took := time.Since(began)
		o.say("closed after %v", took)
		o.must(err != nil && took <= 12*time.Second, "a peer that reads nothing was closed after %v: %v", took, err)
		o.invariants(v, g.report(), begin)
		closeAll(conns)
	})
}
