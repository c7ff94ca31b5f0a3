package partner_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// spend takes so much of a budget that a frame of 1 MiB waits.
func spend(t *testing.T, b *memory.Budget) *memory.Room {
	t.Helper()
	var r memory.Room
	if err := r.Take(t.Context(), b.Share("other"), 3<<20, 0, memory.Wait{}); err != nil {
		t.Fatal(err)
	}
	return &r
}

// While a large frame of either end waits for room, nothing passes over a link of one stream. The link
// is in use.
func TestRS36ALinkStaysWhileItsPartnerWaitsForRoom(t *testing.T) {
	for name, which := range map[string]func(h *hopPair) *memory.Budget{
		"at the partner": func(h *hopPair) *memory.Budget { return h.far },
		"here":           func(h *hopPair) *memory.Budget { return h.near },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHopPair(t, nil)
				there := profiles.Toward(h.client, "b")
				if _, err := rpc.Call(t.Context(), there, rpc.MethodPing, nil); err != nil {
					t.Fatal(err)
				}
				up, err := h.link.Ready(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				other := spend(t, which(h))
				large := make(chan string, 1)
				go func() {
					// Its answer is as large.
					c, err := up.Session.Call(t.Context(), e1.Envelope{ProfileID: 900, MsgType: typeAsk, Payload: []byte(strings.Repeat("x", 1<<20))})
					if err != nil {
						large <- err.Error()
						return
					}
					defer c.Close()
					env, err := c.Recv(t.Context())
					if err != nil {
						large <- err.Error()
						return
					}
					large <- string(env.Payload[1<<20:])
				}()
				time.Sleep(time.Second)
				for range 35 {
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					_, err = rpc.Call(ctx, there, rpc.MethodPing, nil)
					cancel()
				}
				if err == nil {
					t.Error("the link carries messages while a large frame waits for room")
				}
				other.Give()
				if got := <-large; got != " done" {
					t.Errorf("the large message: %.80q", got)
				}
				if _, err := rpc.Call(t.Context(), there, rpc.MethodPing, nil); err != nil {
					t.Error(err)
				}
				if s := h.link.Status(); !s.Up || s.Connects != 1 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// A partner that has answered a large message has no reason for silence afterwards.
func TestAPartnerThatFallsSilentAfterALargeMessageIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHopPair(t, nil)
		name := "b/" + strings.Repeat("x", 1<<20)
		if got := h.ask(t, h.client, typeAsk, name); !strings.HasSuffix(got, " done") {
			t.Fatalf("%.40q", got)
		}
		close(h.freeze)
		began := time.Now()
		if got := h.ask(t, h.client, typeAsk, "b/x"); !strings.Contains(got, "was lost") {
			t.Errorf("answered %.80q", got)
		}
		if took := time.Since(began); took > 16*time.Second {
			t.Errorf("given up after %v", took)
		}
	})
}
