package relay

import (
	"context"

	"github.com/slimwire/swp/store"
)

// Keep takes custody of a delivery under an identity, as if that identity had published it.
// It is for components of this process that store a delivery for others. It returns when
// the delivery is durable; a repeated delivery is stored once. The caller must check
// access. The error is an *profiles.Error, or that of ctx; in the latter case the delivery
// may have been stored, and Keep can be repeated.
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
	s.take(&m, "", conditions{}, identity, id, ttl, p.Hops, func(r store.AddResult) {
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
