package endpoint_test

import (
	"context"
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
)

// kinds are the in-memory transports: one stream, and many.
var kinds = []struct {
	name string
	pipe func() (a, b transport.Conn)
}{
	{"pipe", func() (transport.Conn, transport.Conn) { return transport.Pipe() }},
	{"mux", func() (transport.Conn, transport.Conn) { return transport.MuxPipe() }},
}

// pair connects two endpoints.
func pair(t *testing.T, pipe func() (a, b transport.Conn), h profiles.HandlerFunc) (a, b *endpoint.Session) {
	t.Helper()
	one, _ := newEndpoint(t, endpoint.Options{}, profile(h))
	two, _ := newEndpoint(t, endpoint.Options{}, profile(h))
	x, y := pipe()
	return one.Attach(x), two.Attach(y)
}

func TestEitherEndMayInitiate(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			a, b := pair(t, k.pipe, echo)
			for _, s := range []*endpoint.Session{a, b} {
				if got := ask(t, s, "hello"); got != "hello" {
					t.Errorf("answer %q, want %q", got, "hello")
				}
			}
		})
	}
}

func TestCallsRunConcurrentlyAndGetTheirOwnAnswers(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			a, _ := pair(t, k.pipe, echo)
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() {
					for j := range effort.Rounds(50) {
						want := fmt.Sprintf("%d/%d", i, j)
						if got := ask(t, a, want); got != want {
							t.Errorf("answer %q, want %q", got, want)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

func TestLargePayloadsCrossInBothDirections(t *testing.T) {
	effort.Unwatched(t)
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			a, _ := pair(t, k.pipe, echo)
			want := make([]byte, e1.DefaultMaxPayload)
			for i := range want {
				want[i] = byte(i * 7)
			}
			if got := ask(t, a, string(want)); got != string(want) {
				t.Errorf("%d octets came back changed", len(got))
			}
		})
	}
}

func ask(t *testing.T, s profiles.Session, payload string) string {
	t.Helper()
	got, err := try(t.Context(), s, payload)
	if err != nil {
		t.Errorf("call: %v", err)
	}
	return got
}

func try(ctx context.Context, s profiles.Session, payload string) (string, error) {
	c, err := s.Call(ctx, e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: []byte(payload)})
	if err != nil {
		return "", err
	}
	defer c.Close()
	env, err := c.Recv(ctx)
	if err != nil {
		return "", err
	}
	return string(env.Payload), nil
}

// The peer has finished its stream and still waits for an answer, so the
// connection lives on; but what is asked now can never be answered.
func TestACallAfterThePeerHasFinishedFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, held := parking(t)
		r := newRigOn(t, transport.Pipe, endpoint.Options{}, p)
		r.send(t, request("the-held-request", "held"))
		first := <-held
		if err := r.raw.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := time.Now()
		if got, err := try(t.Context(), r.sess, "late"); err == nil || time.Since(before) > 0 {
			t.Errorf("a late call returned %q, %v after %v; want an error at once", got, err, time.Since(before))
		}
		if err := first.w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: first.req.Payload}); err != nil {
			t.Fatal(err)
		}
		r.wantEcho(t, "the-held-request", "held")
	})
}
