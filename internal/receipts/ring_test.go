package receipts

import (
	"fmt"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/audit"
)

// held returns the sequences in a ring.
func (r *ring) held() (list []uint64) {
	for i := range r.n {
		list = append(list, r.at(i).sequence)
	}
	return list
}

func TestARingKeepsTheNewestInOrder(t *testing.T) {
	for _, most := range []int{1, 2, 64, 65, 200} {
		r := ring{most: most}
		var want []uint64
		for i := uint64(1); i <= 1000; i++ {
			if full := r.add(slot{sequence: i}); full != (len(want) == most) {
				t.Fatalf("ring of %d: slot %d: full %t", most, i, full)
			}
			if want = append(want, i); len(want) > most {
				want = want[1:]
			}
			if i%7 == 0 {
				r.remove(func(s *slot) bool { return s.sequence%3 == 0 })
				var left []uint64
				for _, n := range want {
					if n%3 != 0 {
						left = append(left, n)
					}
				}
				want = left
			}
			if fmt.Sprint(r.held()) != fmt.Sprint(want) {
				t.Fatalf("ring of %d holds %v, want %v", most, r.held(), want)
			}
		}
		r.remove(func(*slot) bool { return true })
		if r.n != 0 || r.slots != nil {
			t.Errorf("an empty ring of %d has room for %d", most, len(r.slots))
		}
	}
}

func TestItemsFindTheirSlotsUnlessTheyHaveGivenWay(t *testing.T) {
	r := ring{most: 4}
	var items []item
	for i := range 6 {
		x := exchange(i, true)
		r.add(newSlot(&x, uint64(i)))
		if i%2 == 0 {
			items = append(items, r.at(r.n-1).item())
		}
	}
	var found []uint64
	r.each(items, func(i int, s *slot) {
		if items[i].sequence != s.sequence || string(items[i].x.MsgID) != string(s.id()) {
			t.Errorf("item %d is %+v", i, s.item())
		}
		found = append(found, s.sequence)
	})
	if fmt.Sprint(found) != "[2 4]" {
		t.Errorf("found %v", found)
	}
}

func TestTheLargestExchangeFitsIntoASlot(t *testing.T) {
	const most = 1<<64 - 1
	x := audit.Exchange{
		Asked: true, Complete: true, MsgID: make([]byte, 64), ProfileID: most, MsgType: most, Caller: audit.Sum{1}, Target: audit.Sum{1}, Request: audit.Sum{1},
		AnswerType: most, Answer: audit.Sum{1}, Began: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), Ended: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
	}
	if n := len(x.Append(nil)); n != audit.MaxExchange || n > 255 {
		t.Errorf("%d octets, want %d", n, audit.MaxExchange)
	}
	s := newSlot(&x, 1)
	if got := s.item().x; fmt.Sprint(got) != fmt.Sprint(x) {
		t.Errorf("%v", got)
	}
}
