package relay

import (
	"context"

	"github.com/slimwire/swp/store"
)

// Keep takes custody of a delivery for an identity, as if it had published it here,
// for those on this side who have been given something to keep. It returns once the
// Store has it; a delivery that the Store has already is kept no second time. What the
// identity may do is the caller's to ask. The error is an *profiles.Error, or that of
// ctx: then the delivery may be kept all the same, and Keep can be called again.
func (s *Service) Keep(ctx context.Context, identity string, p *Publication) error {
	m := Publish{DeliveryID: p.ID, Topic: []byte(p.Topic), Payload: p.Payload, TTL: milliseconds(p.TTL)}
	if err := m.Decode(m.Append(make([]byte, 0, m.Size()))); err != nil { // and m is its own
		return err
	}
	id, ttl, err := s.admit(&m, identity, p.Hops)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	s.take(&m, "", identity, id, ttl, p.Hops, func(r store.AddResult) {
		switch {
		case r.Err != nil:
			done <- s.notTaken(p.Topic, r.Err)
		case !r.Fresh && !r.Equal:
			done <- errConflict
		default:
			done <- nil
		}
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
