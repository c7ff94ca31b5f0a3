package endpoint_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

// later holds a request and answers with its length after a second.
func later(req *profiles.Request, w profiles.Responder) {
	go func() {
		time.Sleep(time.Second)
		_ = w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: fmt.Append(nil, len(req.Payload))})
	}()
}

// 64 peers send a frame each in step, of more octets together than the budget has. With growth by
// halves none was served: each had half of its room and waited for the other half.
func TestRS36LargeFramesInStepAreAllServed(t *testing.T) {
	effort.Unwatched(t)
	const peers, size, pace, budget = 64, 1_000_000, 100_000, 32 << 20
	for _, identities := range []int{1, 2, peers} {
		t.Run(fmt.Sprint(identities), func(t *testing.T) {
			virtually(t, func(t *testing.T, pipe pipe) {
				ep, rec := newEndpoint(t, endpoint.Options{Bounds: endpoint.Bounds{InFlightBytes: budget}}, profile(hold(later)))
				octets := framed(request("0123456789abcdef", string(make([]byte, size))))
				a, _ := pipe()
				multiplexed := a.Multiplexed()
				_ = a.Close(0)
				var all sync.WaitGroup
				for i := range peers {
					here, there := transport.NewPipe(transport.PipeOptions{
						Multiplexed: multiplexed, B: fmt.Sprintf("spiffe://test.invalid/%d", i%identities),
					})
					r := attach(t, ep, rec, here, there)
					all.Go(func() {
						for rest := octets; len(rest) > 0; {
							n := min(len(rest), pace/10)
							if _, err := r.raw.Write(rest[:n]); err != nil {
								t.Errorf("peer %d: %v", i, err)
								return
							}
							rest = rest[n:]
							time.Sleep(100 * time.Millisecond)
						}
						if env, err := r.next(); err != nil || string(env.Payload) != fmt.Sprint(size) {
							t.Errorf("peer %d: %.40q, %v", i, env.Payload, err)
						}
					})
				}
				all.Wait()
				if took := ep.Stats().InFlightBytes; took > budget {
					t.Errorf("%d octets are in use", took)
				}
			})
		})
	}
}

// filled is a budget of which another identity has so much that a frame of 1 MiB waits. The caller gives
// the other's Room back.
func filled(t *testing.T, limit int) (*memory.Budget, *memory.Room) {
	t.Helper()
	b := memory.New(limit)
	s := b.Share("spiffe://test.invalid/other")
	t.Cleanup(s.Close)
	var r memory.Room
	if err := r.Take(t.Context(), s, limit/8*6, 0, memory.Wait{}); err != nil {
		t.Fatal(err)
	}
	return b, &r
}

// noticed is the time in which the end of a peer is noticed whose frame waits for room. Over sockets a test allows three
// times as much, for a busy machine.
const noticed = 5 * time.Second

// A frame that waits for room is not read. Its peer leaves in the middle of it.
func TestRS36AWaitingFrameEndsWithItsPeer(t *testing.T) {
	const sent = 80 << 10 // more than is read before there is room
	leave := map[string]func(r *rig){
		"close": func(r *rig) { _ = r.conn.Close(0) },
		"end":   func(r *rig) { _ = r.raw.CloseWrite() },
		"reset": func(r *rig) { r.raw.Reset(0) },
	}
	for _, kind := range []string{"tls", "quic", "tcp"} {
		for how, leave := range leave {
			if kind != "quic" && how == "end" {
				continue // close_notify is behind octets that are not read
			}
			t.Run(kind+" "+how, func(t *testing.T) {
				transporttest.NoLeaks(t)
				budget, other := filled(t, 4<<20)
				defer other.Give()
				w := listen(t, kind, endpoint.Options{Memory: budget, Bounds: endpoint.Bounds{Body: time.Hour, Room: time.Hour}}, profile(echo))
				r := w.dial(t)
				r.write(t, append(binary.BigEndian.AppendUint32(nil, 1<<20), make([]byte, sent)...))
				for asked := time.Now(); !other.Wanted(); time.Sleep(time.Millisecond) {
					if time.Since(asked) > transporttest.Patience {
						t.Fatal("the frame never waits for room")
					}
				}
				began := time.Now()
				leave(r)
				r.rec.await(t, "the end of the frame", func(rec *recorder) bool { return len(rec.verdicts)+len(rec.closed) > 0 })
				if took := time.Since(began); took > 3*noticed {
					t.Errorf("the end was noticed after %v", took)
				}
			})
		}
	}
}

func TestRS36AWaitingFrameOfAPipeEndsWithItsPeer(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		budget, other := filled(t, 4<<20)
		defer other.Give()
		ep, rec := newEndpoint(t, endpoint.Options{Memory: budget, Bounds: endpoint.Bounds{Room: time.Hour}}, profile(echo))
		here, there := pipe()
		r := attach(t, ep, rec, here, there)
		r.write(t, append(binary.BigEndian.AppendUint32(nil, 1<<20), make([]byte, 80<<10)...))
		time.Sleep(time.Minute) // longer than the frame may take
		if rec.count() > 0 {
			t.Fatalf("verdict %+v", rec.verdict(t, 1))
		}
		began := time.Now()
		r.raw.Reset(0)
		for rec.count() == 0 && r.sess.Context().Err() == nil {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(began); took > noticed {
			t.Errorf("the end was noticed after %v", took)
		}
	})
}

// The time for a frame does not pass while it waits for room, and the wait has a bound.
func TestRS36TheWaitForRoomDoesNotCountAndEnds(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		budget, other := filled(t, 4<<20)
		defer other.Give()
		ep, rec := newEndpoint(t, endpoint.Options{Memory: budget}, profile(echo))
		peer := func() *rig {
			here, there := pipe()
			return attach(t, ep, rec, here, there)
		}
		first := peer()
		payload := strings.Repeat("x", 1<<20-100)
		octets := framed(request("0123456789abcdef", payload))
		go func() {
			for _, part := range [][]byte{octets[:200_000], octets[200_000:]} {
				_, _ = first.raw.Write(part)
				time.Sleep(time.Second)
			}
		}()
		time.Sleep(110 * time.Second)
		other.Give()
		first.wantEcho(t, "0123456789abcdef", payload)
		first.wantVerdict(t, 1, profiles.OK, "", endpoint.Kept)
		_ = first.conn.Close(0)
		synctest.Wait()

		if err := other.Take(t.Context(), budget.Share("other"), 3<<20, 0, memory.Wait{}); err != nil {
			t.Fatal(err)
		}
		second := peer()
		_, _ = second.raw.Write(octets[:100_000])
		time.Sleep(119 * time.Second)
		if n := rec.count(); n != 1 {
			t.Fatalf("%d verdicts before the end of the wait, want 1", n)
		}
		time.Sleep(2 * time.Second)
		if v := rec.verdict(t, 2); v.Code != profiles.RateLimitExceeded || v.Detail != "in_flight_bytes" {
			t.Errorf("verdict %+v", v)
		}
	})
}

// Of a frame that stalls the room is taken back for another that waits, and its peer is told why.
func TestRS36AStalledFrameGivesWay(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		ep, rec := newEndpoint(t, endpoint.Options{Memory: memory.New(4 << 20)}, profile(echo))
		a, _ := pipe()
		multiplexed := a.Multiplexed()
		_ = a.Close(0)
		peer := func(identity string) *rig {
			here, there := transport.NewPipe(transport.PipeOptions{Multiplexed: multiplexed, B: identity})
			return attach(t, ep, rec, here, there)
		}
		octets := framed(request("0123456789abcdef", strings.Repeat("x", 1<<20-100)))
		for range 3 {
			r := peer("spiffe://test.invalid/stalled")
			_, _ = r.raw.Write(octets[:100_000])
		}
		synctest.Wait()
		good := peer("spiffe://test.invalid/good")
		began := time.Now()
		good.send(t, request("0123456789abcdef", strings.Repeat("x", 1<<20-100)))
		good.wantEcho(t, "0123456789abcdef", strings.Repeat("x", 1<<20-100))
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("served after %v", took)
		}
		if v := rec.verdict(t, 1); v.Code != profiles.RateLimitExceeded || v.Detail != "in_flight_bytes" {
			t.Errorf("verdict %+v", v)
		}
	})
}

// Connections of two identities send parts of large frames and leave: the memory is back, and a
// frame of another identity is served meanwhile and afterwards.
func TestRS36PeersThatLeaveGiveTheirRoomBack(t *testing.T) {
	effort.Unwatched(t)
	for _, kind := range []string{"tls", "quic"} {
		t.Run(kind, func(t *testing.T) {
			transporttest.NoLeaks(t)
			const budget, back = 16 << 20, 10 * time.Second
			w := listen(t, kind, endpoint.Options{Bounds: endpoint.Bounds{InFlightBytes: budget, Body: time.Hour, Room: time.Hour}}, profile(echo))
			var writers sync.WaitGroup
			var conns []transport.Conn
			for i := range 32 {
				w.policy = w.ca.Policy(t, fmt.Sprintf("spiffe://test.invalid/%d", i%2))
				r := w.dial(t)
				conns = append(conns, r.conn)
				writers.Go(func() {
					_, _ = r.raw.Write(append(binary.BigEndian.AppendUint32(nil, 2<<20), make([]byte, 1200<<10)...))
				})
			}
			for w.ep.Stats().InFlightBytes < budget/2 {
				time.Sleep(time.Millisecond)
			}
			w.policy = w.ca.Policy(t, "spiffe://test.invalid/stranger")
			good, _ := newEndpoint(t, endpoint.Options{}, profile(echo))
			s := good.Attach(w.dial(t).conn)
			payload := string(make([]byte, 1<<20-100))
			ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
			defer cancel()
			if got, err := try(ctx, s, payload); err != nil || got != payload {
				t.Errorf("beside them: %.40q, %v", got, err)
			}
			left := time.Now()
			for _, c := range conns {
				_ = c.Close(0)
			}
			writers.Wait()
			if got, err := try(ctx, s, payload); err != nil || got != payload {
				t.Errorf("after them: %.40q, %v", got, err)
			}
			s.Close(profiles.OK)
			for ; w.ep.Stats().InFlightBytes > 0; time.Sleep(time.Millisecond) {
				if time.Since(left) > back {
					t.Fatalf("%d octets are in use after %v", w.ep.Stats().InFlightBytes, back)
				}
			}
			t.Logf("the room was back after %v", time.Since(left))
		})
	}
}

// A held request, and an answer, take the buffer along: they need no room besides that of the frame.
func TestRS36AMessageNeedsRoomOnce(t *testing.T) {
	virtually(t, func(t *testing.T, pipe pipe) {
		const size = 3<<20 - 100
		server := memory.New(16 << 20)
		held := make(chan parked, 1)
		one, _ := newEndpoint(t, endpoint.Options{Memory: server}, telling(profile(hold(func(req *profiles.Request, w profiles.Responder) {
			held <- parked{req, w}
		}))))
		client := memory.New(16 << 20)
		two, _ := newEndpoint(t, endpoint.Options{Memory: client}, profile(echo))
		x, y := pipe()
		one.Attach(x)
		s := two.Attach(y)
		payload := strings.Repeat("0123456789", size/10)
		go func() {
			p := <-held
			if used := server.Used(); used < size || used > frame.Capacity(size) {
				t.Errorf("%d octets are in use for a request of %d", used, size)
			}
			got := string(p.req.Payload)
			if err := p.w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: []byte(got)}); err != nil {
				t.Error(err)
			}
		}()
		if got := ask(t, s, payload); got != payload {
			t.Errorf("an answer of %d octets, want %d", len(got), len(payload))
		}
		time.Sleep(time.Second)
		if a, b := server.Used(), client.Used(); a != 0 || b != 0 {
			t.Errorf("%d and %d octets are in use", a, b)
		}
	})
}
