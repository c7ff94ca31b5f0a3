package crash

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// turn is an operation of a process on a store that processes have in turn.
type turn struct {
	do  string // didTake, didAppend, didLeave, didLook
	who string
}

// answered is how a turn ended.
type answered struct {
	end string // endOK, endHeld, endFenced, unknownEnd
	seq uint64 // number of the entry that was appended, or of the last one that was seen
}

// The ends of turns.
const (
	endHeld   = "held"   // another process has the store
	endFenced = "fenced" // another process has taken it over
)

// tenure has the owner of a store and the number of its last entry.
type tenure struct {
	owner string // empty: the last one has left
	last  uint64
}

// turnsModel is a lease and its fence: a process that takes the store has it until it leaves or another
// one takes it, and only entries of the owner are appended, one after the other. A turn without an answer
// may happen at any time since its begin, or never: it ends at forever.
var turnsModel = porcupine.Model{
	Init: func() any { return tenure{} },
	Step: func(s, in, out any) (bool, any) {
		now, do, a := s.(tenure), in.(turn), out.(answered)
		mine := now.owner == do.who
		switch do.do {
		case didTake:
			switch {
			case a.end == endHeld:
				return now.owner != "", now
			default:
				return !mine, tenure{do.who, now.last}
			}
		case didAppend:
			switch {
			case a.end == endFenced, a.end == unknownEnd && !mine:
				return !mine, now
			case a.end == endOK && a.seq != now.last+1:
				return false, now
			}
			return mine, tenure{now.owner, now.last + 1}
		case didLeave:
			if mine {
				now.owner = ""
			}
			return true, now
		}
		return a.seq == now.last, now
	},
	DescribeOperation: func(in, out any) string {
		do, a := in.(turn), out.(answered)
		return fmt.Sprintf("%s: %s → %s %d", do.who, do.do, a.end, a.seq)
	},
}
