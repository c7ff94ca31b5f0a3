package access

// automaton matches a pattern with several wildcards without ever going back.
// State i means that the first i characters of the pattern, wildcards not
// counted, have been seen; all states that a name can be in are the bits of a
// few words, and each character of the name moves all of them at once. A
// wildcard lets its state stay where it is.
type automaton struct {
	last  int // the state of a match
	words int // in use
	class [256]uint8
	steps []states // by class of a character: the states that it moves on
	some  states   // stay with any character but "/"
	any   states   // stay with any character
}

// states has a bit for each character of the longest pattern, and one.
type states [MaxPattern/64 + 1]uint64

func (s *states) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s *states) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

func newAutomaton(text string) *automaton {
	a := &automaton{steps: make([]states, 1)} // class 0: characters that are not in the text
	for i := range len(text) {
		c := text[i]
		if c == '*' {
			a.some.add(a.last)
			if i > 0 && text[i-1] == '*' {
				a.any.add(a.last)
			}
			continue
		}
		if a.class[c] == 0 {
			a.class[c] = uint8(len(a.steps)) // at most 255: every octet but the star
			a.steps = append(a.steps, states{})
		}
		a.steps[a.class[c]].add(a.last)
		a.last++
	}
	a.words = a.last/64 + 1
	return a
}

// match reports whether name as a whole matches.
func (a *automaton) match(name string) bool {
	var now states
	return a.run(name, &now) && now.has(a.last)
}

// begins reports whether something that begins with name matches: every state
// has a way to the last one.
func (a *automaton) begins(name string) bool {
	var now states
	return a.run(name, &now)
}

// run moves from the first state through name, and reports whether any state is
// left.
func (a *automaton) run(name string, now *states) bool {
	now.add(0)
	for i := range len(name) {
		c := name[i]
		moves, slash := &a.steps[a.class[c]], c == '/'
		var carry, alive uint64
		for w := range a.words {
			stay := a.any[w]
			if !slash {
				stay |= a.some[w]
			}
			moved := now[w] & moves[w]
			now[w] = now[w]&stay | moved<<1 | carry
			carry = moved >> 63
			alive |= now[w]
		}
		if alive == 0 {
			return false
		}
	}
	return true
}
