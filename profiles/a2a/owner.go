package a2a

// Owner returns the identity that an agent belongs to, on a session or away; false for
// one that nobody has declared, or not for a long time.
func (s *Service) Owner(agentID string) (identity string, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.agents[agentID]
	if a == nil {
		return "", false
	}
	return a.identity, true
}
