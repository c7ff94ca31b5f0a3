package daemon

import (
	"strings"
	"sync"
	"testing"

	"github.com/slimwire/swp/profiles/rpc"
)

// One caller of a partner has calls in flight that do not end, as many as it can.
func TestRS31OneCallerOfAPartnerLeavesRoomForAnother(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		f, yaml := newFar(t)
		a, b := pair(t, transport, yaml)
		b.configure(func(text string) string { return strings.Replace(text, "  a: {", "  a: {in_flight: 8, ", 1) })
		b.reloaded()
		people := newPeople(t)
		people.admit(a)
		a.connected("b")
		mallory, alice := people.dial(a, transport, bobID), people.dial(a, transport, aliceID)
		before := a.link("b").Connects
		refused := make(chan error, 20)
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() {
				_, err := rpc.Call(t.Context(), mallory.Session, "b/hang", nil)
				refused <- err
			})
		}
		for range 12 {
			if err := <-refused; !isRPC(err, rpc.CodeUnavailable) {
				t.Errorf("a call without a place: %v", err)
			}
		}
		for range 7 {
			<-f.asked
		}
		for range 8 {
			if got, err := rpc.Call(t.Context(), alice.Session, "b/echo", []byte("1")); err != nil || string(got) != "1" {
				t.Errorf("a call of another caller: %q, %v", got, err)
			}
		}
		if after := a.link("b").Connects; after != before {
			t.Errorf("%d sessions, want 1", after-before+1)
		}
		mallory.Close(0)
		calls.Wait()
	})
}
