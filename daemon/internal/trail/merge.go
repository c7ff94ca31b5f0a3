package trail

import (
	"sync"
	"time"

	"github.com/slimwire/swp/internal/audit"
)

// merger merges records of denials, and of identities without rules, so that one identity does not
// push the records of others out of the trail. An identity has a record for each such exchange
// until they fill a sixteenth of the trail, and then one for eight records of others. Further
// ones are counted, and each kind of them has one record a minute.
type merger struct {
	mu sync.Mutex
	of map[string]*merged // by identity; of a peer with its callers
}

const (
	recordSize = 1 << 10 // about the octets of a record
	fullShare  = 16      // the part of the trail: 1/16
	refill     = 8       // records of others for one more

	mergeFor     = time.Minute
	mostKinds    = 8    // of one identity; the others have one record
	mostMergings = 4096 // identities; the others share records
)

// merged is what an identity was denied lately, or did without rules.
type merged struct {
	left    float64 // records that it may have
	seen    uint64  // records in the trail when left was computed
	records map[kind]*audit.Record
	since   time.Time // the first exchange of records
}

// kind is what merged records have in common. Without a profile it stands for all above the bound
// with an outcome.
type kind struct{ profile, operation, outcome, rule, reason string }

// merges reports whether a record is merged into another. There are written
// records in the trail, of size octets at most.
func (m *merger) merges(r *audit.Record, written uint64, size int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	who := r.Identity
	d := m.of[who]
	if d == nil && len(m.of) >= mostMergings {
		who = ""
		d = m.of[who]
	}
	if d == nil {
		if m.of == nil {
			m.of = make(map[string]*merged)
		}
		d = &merged{left: float64(share(size)), seen: written, records: make(map[kind]*audit.Record)}
		m.of[who] = d
	}
	d.fill(written, size)
	if d.left >= 1 {
		d.left--
		d.seen++ // its own
		return false
	}
	d.add(who, r)
	return true
}

// share is how many such records an identity may have in a trail of a size.
func share(size int64) int { return int(max(1, size/fullShare/recordSize)) }

// fill adds records for those that the trail has got from others.
func (d *merged) fill(written uint64, size int64) {
	if written > d.seen {
		d.left += float64(written-d.seen) / refill
		d.seen = written
	}
	d.left = min(d.left, float64(share(size)))
}

func (d *merged) add(who string, r *audit.Record) {
	if len(d.records) == 0 {
		d.since = r.Time.Add(-r.Took)
	}
	k := kind{r.Profile, r.Operation, r.Outcome, r.Rule, r.Reason}
	if d.records[k] == nil && len(d.records) >= mostKinds {
		k = kind{outcome: r.Outcome}
	}
	sum := d.records[k]
	if sum == nil {
		sum = &audit.Record{Identity: who, Profile: k.profile, Operation: k.operation, Rule: k.rule, Reason: k.reason, Outcome: k.outcome, OK: r.OK}
		d.records[k] = sum
	}
	sum.Times++
	sum.In += r.In
	sum.Out += r.Out
}

// take returns the merged records that are due, or all, and forgets identities that have their
// full share again.
func (m *merger) take(now time.Time, all bool, written uint64, size int64) (due []*audit.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for who, d := range m.of {
		switch d.fill(written, size); {
		case len(d.records) == 0:
			if d.left >= float64(share(size)) {
				delete(m.of, who)
			}
		case all || now.Sub(d.since) >= mergeFor:
			for _, r := range d.records {
				r.Time, r.Took = now, now.Sub(d.since)
				due = append(due, r)
			}
			clear(d.records)
		}
	}
	return due
}
