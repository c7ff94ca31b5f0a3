package endpoint

import (
	"sync"
	"sync/atomic"
	"testing"
)

// CountSums returns a function that says how many records of exchanges were made since, each
// of which has sums. Nothing else may run endpoints until the test ends.
func CountSums(t *testing.T) func() int64 {
	before, made := records, new(atomic.Int64)
	records = &sync.Pool{New: func() any {
		made.Add(1)
		return before.New()
	}}
	t.Cleanup(func() { records = before })
	return made.Load
}

// Heard returns how many assertions of its peer a session remembers.
func Heard(s *Session) int {
	s.callers.mu.Lock()
	defer s.callers.mu.Unlock()
	return len(s.callers.now) + len(s.callers.older)
}
