package endpoint

// standing is what became of an answer.
type standing uint8

const (
	awaited standing = iota // its call takes it, or has failed meanwhile
	belated                 // its call was given up
	excess                  // its call was answered to its end, or forgotten
)

// standing says what an answer is that no call takes. The terminal one of a call
// that was given up is the last that may come late.
func (s *Session) standing(n uint64, terminal bool) standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.givenUp.has(n):
		return excess
	case terminal:
		s.givenUp.remove(n)
	}
	return belated
}

// givenUp is a set of calls that were closed before they were answered to their
// end: what still comes for them is the peer's good right. Of more than
// maxGivenUp the oldest are forgotten, in halves.
type givenUp struct{ now, before map[uint64]struct{} }

const maxGivenUp = 4096

func (g *givenUp) add(n uint64) {
	if len(g.now) >= maxGivenUp/2 {
		g.now, g.before = nil, g.now
	}
	if g.now == nil {
		g.now = make(map[uint64]struct{})
	}
	g.now[n] = struct{}{}
}

func (g *givenUp) has(n uint64) bool {
	if _, ok := g.now[n]; ok {
		return true
	}
	_, ok := g.before[n]
	return ok
}

func (g *givenUp) remove(n uint64) {
	delete(g.now, n)
	delete(g.before, n)
}
