package relay_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles/relay"
)

// TestDeadListsWhatIsTooLargeForAnAnswer has a dead delivery whose payload, as
// JSON, has no room in a frame. It is listed without it, and hides no other.
func TestDeadListsWhatIsTooLargeForAnAnswer(t *testing.T) {
	effort.Unwatched(t)
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, "pipe", relay.Options{})
		p := s.dial(publisher)
		c := s.dial(consumer).consume("orders", 0)
		payloads := map[string]string{"large": strings.Repeat("x", 7<<20), "small": "x"}
		for _, id := range []string{"large", "small"} {
			if _, err := p.send(relay.Publication{ID: []byte(id), Topic: "orders", Payload: []byte(payloads[id])}); err != nil {
				t.Fatal(err)
			}
			nack(t, receiveAny(t, c), false)
			synctest.Wait()
		}
		list := p.dead(relay.DeadParams{Payload: true})
		if len(list) != 2 {
			t.Fatalf("%d are listed, want 2", len(list))
		}
		for _, d := range list {
			id := string(d.DeliveryID)
			want := len(payloads[id])
			if id == "large" {
				want = 0
			}
			if d.Size != len(payloads[id]) || len(d.Payload) != want {
				t.Errorf("%s: size %d with %d octets of payload, want %d with %d", id, d.Size, len(d.Payload), len(payloads[id]), want)
			}
		}
	})
}
