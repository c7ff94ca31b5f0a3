package access

// automaton matches a pattern with several wildcards in one pass. State i means that the
// first i characters of the pattern, without wildcards, have been matched. A bit set holds
// all possible states; each character of the name advances all of them at once. A wildcard
// lets its state persist.
type automaton struct {
	last  int // the accepting state
	words int // in use
	class [256]uint8
	steps []states // by class of a character: states that the character advances
	some  states   // states that persist for any character but "/"
	any   states   // states that persist for any character
}

// states has a bit for each possible state: one more than the longest pattern has
// characters.
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

// begins reports whether some name that begins with this one matches. Every state can reach
// the last one, so any remaining state suffices.
func (a *automaton) begins(name string) bool {
	var now states
	return a.run(name, &now)
}

// run advances from the first state through name, and reports whether a state remains.
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
