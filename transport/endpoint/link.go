package endpoint

// Drain refuses new requests of the peer from now on, as retryable, and closes
// the session once nothing is in flight in either direction. It does not wait.
func (s *Session) Drain() { s.drain() }

// inFlightBound is how many requests the peer may have in flight.
func (s *Session) inFlightBound() int {
	if of := s.ep.opts.InFlightOf; of != nil {
		if n := of(s.peer.Identity); n > 0 {
			return n
		}
	}
	return s.ep.opts.Bounds.InFlight
}
