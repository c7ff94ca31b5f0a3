package receipts

import (
	"time"

	"github.com/slimwire/swp/internal/audit"
)

// slot is an exchange with its state. It has no pointers, so that a collection of garbage
// does not scan thousands of waiting exchanges.
type slot struct {
	serial   uint64 // in its ring
	sequence uint64 // of the record in the trail
	after    int64  // asked: not due before, in Unix nanoseconds; answered: Ledger.linked at that time
	ended    int64  // end of the exchange, likewise
	tries    uint8
	complete bool
	repeated bool // asked: the partner has kept a receipt with it
	kept     bool // answered: a receipt with it was kept
	over     bool // asked: no longer due; answered: judged, and not confirmed
	size     uint8
	octets   [audit.MaxExchange]byte
}

func newSlot(x *audit.Exchange, sequence uint64) (s slot) {
	s.sequence, s.complete, s.ended = sequence, x.Complete, x.Ended.UnixNano()
	s.size = uint8(len(x.Append(s.octets[:0])))
	return s
}

// id returns the msg_id, a window into the slot: it is behind the flags and its length.
func (s *slot) id() []byte { return s.octets[2 : 2+s.octets[1]] }

// item is a copy of a slot.
type item struct {
	x                audit.Exchange
	serial, sequence uint64
	repeated         bool
}

func (s *slot) item() item {
	octets := append([]byte(nil), s.octets[:s.size]...)
	x, _ := audit.ParseExchange(octets) // it was written here
	return item{x, s.serial, s.sequence, s.repeated}
}

// ring is a queue of slots in the order of their serials. If it is full the oldest slot
// gives way.
type ring struct {
	most    int
	slots   []slot
	head, n int
	last    uint64 // serial of the newest slot
}

func (r *ring) at(i int) *slot { return &r.slots[(r.head+i)%len(r.slots)] }

// add adds a slot, and reports whether another had to give way.
func (r *ring) add(s slot) (full bool) {
	if full = r.n == r.most; full {
		r.head, r.n = (r.head+1)%len(r.slots), r.n-1
	}
	if r.n == len(r.slots) {
		bigger := make([]slot, min(r.most, max(64, 2*r.n)))
		for i := range r.n {
			bigger[i] = *r.at(i)
		}
		r.slots, r.head = bigger, 0
	}
	r.last++
	s.serial = r.last
	r.n++
	*r.at(r.n - 1) = s
	return full
}

// remove removes the slots that are over.
func (r *ring) remove(over func(*slot) bool) {
	kept := 0
	for i := range r.n {
		if s := r.at(i); !over(s) {
			if kept < i {
				*r.at(kept) = *s
			}
			kept++
		}
	}
	r.n = kept
	if kept == 0 {
		r.slots, r.head = nil, 0 // what is seldom full needs little
	}
}

// each calls f with the slots of items, which are in the order of the ring.
func (r *ring) each(items []item, f func(i int, s *slot)) {
	next := 0
	for i := 0; i < r.n && next < len(items); i++ {
		s := r.at(i)
		for next < len(items) && items[next].serial < s.serial {
			next++ // it has given way
		}
		if next < len(items) && items[next].serial == s.serial {
			f(next, s)
			next++
		}
	}
}

// due reports whether a slot may be sent.
func (s *slot) due(now time.Time) bool { return !s.over && now.UnixNano() >= s.after }
