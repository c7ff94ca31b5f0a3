package events_test

import (
	"testing"

	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/transport/endpoint"
)

func TestEventsArriveInOrder(t *testing.T) {
	overAll(t, func(t *testing.T, kind string) {
		for _, durable := range []bool{false, true} {
			opts := events.Options{}
			if durable {
				opts.Store = newMemory(t)
			}
			s := serve(t, kind, opts, endpoint.Bounds{})
			sub := s.dial("spiffe://test.invalid/subscriber").subscribe(t, events.SubscribeOptions{})
			producer := s.dial("spiffe://test.invalid/producer")
			want := ids(500)
			producer.publish(t, want...)
			cursor := receive(t, sub, want...)
			if durable && cursor != 500 || !durable && cursor != 0 {
				t.Errorf("cursor %d, durable %v", cursor, durable)
			}
		}
	})
}
