package endpoint_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

// One identity has many connections, and a large frame under way on each, which does not end.
func TestRS12OneIdentityLeavesRoomToOthers(t *testing.T) {
	effort.Unwatched(t)
	for _, kind := range []string{"tls", "quic"} {
		t.Run(kind, func(t *testing.T) {
			transporttest.NoLeaks(t)
			const budget, atOnce = 8 << 20, 6
			held := make(chan struct{}, atOnce)
			goOn := make(chan struct{})
			p := telling(profile(detached(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
				held <- struct{}{}
				select {
				case <-goOn:
				case <-ctx.Done():
				}
				return w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: req.Payload})
			})))
			w := listen(t, kind, endpoint.Options{Bounds: endpoint.Bounds{InFlightBytes: budget}}, p)
			var writers sync.WaitGroup
			defer writers.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for range 32 {
				conn := w.dial(t).conn
				stream, err := conn.Open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				writers.Go(func() {
					_, _ = stream.Write(append(binary.BigEndian.AppendUint32(nil, 2<<20), make([]byte, 1<<20)...))
				})
				context.AfterFunc(ctx, func() { _ = conn.Close(0) })
			}
			for w.ep.Stats().InFlightBytes < budget/2 {
				time.Sleep(time.Millisecond)
			}
			w.policy = w.ca.Policy(t, "spiffe://test.invalid/good")
			good, _ := newEndpoint(t, endpoint.Options{}, telling(profile(echo)))
			s := good.Attach(w.dial(t).conn)
			var calls sync.WaitGroup
			payload := string(make([]byte, 60<<10))
			patient, end := context.WithTimeout(t.Context(), transporttest.Patience)
			defer end()
			for range atOnce {
				calls.Go(func() {
					if got, err := try(patient, s, payload); err != nil || got != payload {
						t.Errorf("a small call of another identity: %.40q, %v", got, err)
						end()
					}
				})
			}
			for range atOnce {
				select {
				case <-held:
				case <-patient.Done():
				}
			}
			close(goOn)
			calls.Wait()
			if used := w.ep.Stats().InFlightBytes; used > budget {
				t.Errorf("%d octets are in use, want %d at most", used, budget)
			}
			s.Close(profiles.OK)
		})
	}
}

// Handlers send large answers to a peer that does not read.
func TestRS11AnswersThatWaitForTheirReaderAreInTheBudget(t *testing.T) {
	effort.Unwatched(t)
	const budget, size = 8 << 20, 1 << 20
	virtually(t, func(t *testing.T, pipe pipe) {
		p := telling(profile(detached(func(_ context.Context, _ *profiles.Request, w profiles.Responder) error {
			return w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: make([]byte, size)})
		})))
		ep, rec := newEndpoint(t, endpoint.Options{Bounds: endpoint.Bounds{InFlightBytes: budget}}, p)
		here, there := pipe()
		r := attach(t, ep, rec, here, there)
		for i := range 20 {
			r.send(t, request(fmt.Sprintf("msg-id-%09d", i), ""))
		}
		synctest.Wait()
		if used := ep.Stats().InFlightBytes; used < budget/2 || used > budget {
			t.Errorf("%d octets are in use, want more than half of %d", used, budget)
		}
		_ = r.conn.Close(0)
		synctest.Wait()
		if used := ep.Stats().InFlightBytes; used != 0 {
			t.Errorf("%d octets are in use after the end", used)
		}
	})
}

// refusals returns how many messages were refused for a lack of room.
func refusals(rec *recorder) (n int) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, v := range rec.verdicts {
		if v.Detail == "in_flight_bytes" {
			n++
		}
	}
	return n
}

func TestRS12OnlyWhoIsAboveItsSharePaysForALackOfRoom(t *testing.T) {
	effort.Unwatched(t)
	synctest.Test(t, func(t *testing.T) {
		held := make(chan parked, 1000)
		p := telling(profile(hold(func(req *profiles.Request, w profiles.Responder) { held <- parked{req, w} })))
		opts := endpoint.Options{Bounds: endpoint.Bounds{InFlightBytes: 8 << 20, PaceBudget: 4}}
		ep, rec := newEndpoint(t, opts, p)
		peer := func(identity string) *rig {
			here, there := transport.NewPipe(transport.PipeOptions{B: identity})
			r := attach(t, ep, rec, here, there)
			r.release(t, held)
			return r
		}
		greedy, modest := peer("spiffe://test.invalid/greedy"), peer("spiffe://test.invalid/modest")
		fill := func(r *rig, n, size int) {
			for i := range n {
				if _, err := r.raw.Write(framed(request(fmt.Sprintf("msg-id-%09d", i), string(make([]byte, size))))); err != nil {
					break // it was closed
				}
			}
			synctest.Wait()
		}
		fill(greedy, 6, 1<<20)
		fill(modest, 60, 60<<10)
		few := refusals(rec)
		if few < 10 || modest.sess.Context().Err() != nil {
			t.Errorf("%d refusals until the modest peer was closed (%v), want many and an open connection", few, modest.sess.Context().Err())
		}
		fill(greedy, 60, 60<<10)
		if n := refusals(rec) - few; n != 5 || greedy.sess.Context().Err() == nil {
			t.Errorf("%d refusals until the greedy peer was closed (%v), want 5", n, greedy.sess.Context().Err())
		}
	})
}
