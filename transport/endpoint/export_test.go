package endpoint

// Heard returns how many assertions of its peer a session remembers.
func Heard(s *Session) int {
	s.callers.mu.Lock()
	defer s.callers.mu.Unlock()
	return len(s.callers.now) + len(s.callers.older)
}
