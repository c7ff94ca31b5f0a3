package sharedblobs

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"github.com/slimwire/swp/internal/fair"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/internal/blocks"
	"github.com/slimwire/swp/store/internal/usage"
)

// ledger is what all processes count together. It is one record, which each process replaces
// by compare-and-set for many of its operations at once.
//
// An operation that changes the usage of owners first enters the ledger. Then its new octets
// are charged, so that no quota is ever exceeded, and its owner is open. At its end it leaves
// the ledger, and gives back the octets that it removed or did not write. If its process ends
// before, the usage of the owner is in doubt: it is counted from the records while no
// operation has the owner open.
type ledger struct {
	used      bool                // something was ever written
	versions  uint64              // the last version of a blob
	clock     int64               // the latest time of a process
	due       int64               // nothing expires before
	owners    map[string]*account // by fair.Short of the owner, so that the record is not too large
	processes map[blocks.ID]*process
	usage     usage.Usage // of owners; not stored
}

// account is the usage of an owner. An owner with no usage and no doubt has no account.
type account struct {
	octets  int64
	items   int64
	changes uint64
	doubt   bool
}

// process is what a process has entered. It is removed when its number has not changed for
// lapse.
type process struct {
	number   uint64            // of writes of the process
	sweeping bool              // due must be set by the process
	open     map[string]uint64 // operations, by fair.Short of the owner
}

func newLedger() *ledger {
	return &ledger{due: math.MaxInt64, owners: make(map[string]*account), processes: make(map[blocks.ID]*process)}
}

// process returns the entry of a process, and makes it if it is missing.
func (l *ledger) process(id blocks.ID) *process {
	p := l.processes[id]
	if p == nil {
		p = &process{open: make(map[string]uint64)}
		l.processes[id] = p
	}
	return p
}

// room returns an error if there is no room for so much more of an owner.
func (l *ledger) room(owner string, octets uint64, items int) error {
	return l.usage.Room(owner, fair.Short(owner), octets, items)
}

// charge changes the usage of an owner. It cannot become negative.
func (l *ledger) charge(owner string, octets, items int64) {
	owner = fair.Short(owner)
	a := l.owners[owner]
	if a == nil {
		a = new(account)
		l.owners[owner] = a
	}
	octets, items = max(octets, -a.octets), max(items, -a.items)
	a.octets += octets
	a.items += items
	a.changes++
	l.usage.Charge(owner, octets, int(items))
	if a.octets == 0 && a.items == 0 && !a.doubt && !l.open(owner) {
		delete(l.owners, owner)
	}
}

// doubt marks the usage of an owner to be counted.
func (l *ledger) doubt(owner string) {
	owner = fair.Short(owner)
	l.charge(owner, 0, 0)
	if l.owners[owner] == nil {
		l.owners[owner] = new(account)
	}
	l.owners[owner].doubt = true
}

// open reports whether an operation of any process is under way for an owner.
func (l *ledger) open(owner string) bool {
	owner = fair.Short(owner)
	for _, p := range l.processes {
		if p.open[owner] > 0 {
			return true
		}
	}
	return false
}

// enter opens an owner for an operation of a process.
func (l *ledger) enter(id blocks.ID, owner string) {
	l.used = true
	l.process(id).open[fair.Short(owner)]++
}

// leave reverts enter and changes the usage of the owner. If the process was removed in
// between, the usage is in doubt.
func (l *ledger) leave(id blocks.ID, owner string, octets, items int64) {
	owner = fair.Short(owner)
	p := l.processes[id]
	if p == nil || p.open[owner] == 0 {
		l.doubt(owner)
		return
	}
	if p.open[owner]--; p.open[owner] == 0 {
		delete(p.open, owner)
	}
	l.charge(owner, octets, items)
}

// remove removes a process that has ended.
func (l *ledger) remove(id blocks.ID) {
	p := l.processes[id]
	if p == nil {
		return
	}
	delete(l.processes, id)
	for owner := range p.open {
		l.doubt(owner)
	}
	if p.sweeping {
		l.due = 0
	}
}

// expires notes that something expires at a time; 0 means never.
func (l *ledger) expires(at int64) {
	if at != 0 {
		l.due = min(l.due, at)
	}
}

const ledgerFormat = 1

func (l *ledger) encode() []byte {
	flag := func(b []byte, set bool) []byte {
		if set {
			return append(b, 1)
		}
		return append(b, 0)
	}
	b := flag([]byte{ledgerFormat}, l.used)
	for _, n := range []uint64{l.versions, uint64(l.clock), uint64(l.due), uint64(len(l.owners))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, owner := range slices.Sorted(maps.Keys(l.owners)) {
		a := l.owners[owner]
		b = appendOctets(b, owner)
		for _, n := range []uint64{uint64(a.octets), uint64(a.items), a.changes} {
			b = binary.AppendUvarint(b, n)
		}
		b = flag(b, a.doubt)
	}
	b = binary.AppendUvarint(b, uint64(len(l.processes)))
	for id, p := range l.processes {
		b = append(b, id[:]...)
		b = binary.AppendUvarint(b, p.number)
		b = flag(b, p.sweeping)
		b = binary.AppendUvarint(b, uint64(len(p.open)))
		for owner, n := range p.open {
			b = binary.AppendUvarint(appendOctets(b, owner), n)
		}
	}
	return b
}

// decodeLedger is the inverse of encode. The usage has no bounds yet.
func decodeLedger(b []byte) (*ledger, error) {
	d := decoder{rest: b}
	if format := d.octet(); !d.bad && format != ledgerFormat {
		return nil, store.ErrVersion
	}
	l := newLedger()
	l.used = d.octet() == 1
	l.versions, l.clock, l.due = d.number(), int64(d.number()), int64(d.number())
	for range d.number() {
		owner := string(d.octets())
		a := &account{octets: int64(d.number()), items: int64(d.number()), changes: d.number(), doubt: d.octet() == 1}
		if d.bad = d.bad || a.octets < 0 || a.items < 0; d.bad {
			return nil, errRecord
		}
		l.owners[owner] = a
		l.usage.Charge(owner, a.octets, int(a.items))
	}
	for range d.number() {
		p := l.process(d.id())
		p.number, p.sweeping = d.number(), d.octet() == 1
		for range d.number() {
			owner := string(d.octets())
			if p.open[owner] = d.number(); d.bad {
				return nil, errRecord
			}
		}
		if d.bad {
			return nil, errRecord
		}
	}
	if d.bad || len(d.rest) > 0 {
		return nil, errRecord
	}
	return l, nil
}
