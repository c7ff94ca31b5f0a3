package receipts

import (
	"fmt"
	"time"

	"github.com/slimwire/swp/internal/audit"
)

// confirming watches, at the end that answers, which exchanges the partner does not confirm. The mutex of
// the Ledger guards it.
type confirming struct {
	used   bool          // the partner exchanges receipts, or did
	linked time.Duration // how long it was connected
	seen   time.Time     // when it was connected last; zero: it is away
	judged uint64        // serial in known of the last exchange that was judged

	missing, twice span      // not reported yet
	found          time.Time // when they were reported last
}

// span is a number of exchanges, and the records of the first and the last one.
type span struct {
	n           int
	first, last uint64
}

func (s *span) add(sequence uint64) {
	if s.n == 0 {
		s.first = sequence
	}
	s.n++
	s.first, s.last = min(s.first, sequence), max(s.last, sequence)
}

// pass counts the time that the partner is connected.
func (c *confirming) pass(connected bool, now time.Time) {
	if !c.seen.IsZero() {
		c.linked += now.Sub(c.seen)
	}
	if c.seen = now; !connected {
		c.seen = time.Time{}
	}
}

// miss takes note that the partner has not confirmed an exchange, unless it has, or is not expected to.
func (l *Ledger) miss(s *slot, as *span) {
	if l.used && !s.kept && !s.over {
		s.over = true
		as.add(s.sequence)
		l.figures.Unlisted++
	}
}

// judge looks at the exchanges whose time is over, or at all. They are in the order of their end.
func (l *Ledger) judge(now time.Time, all bool) {
	if !l.used || l.known.n == 0 {
		return
	}
	first := l.known.at(0).serial
	for l.judged = max(l.judged, first-1); l.judged < l.known.last; l.judged++ {
		s := l.known.at(int(l.judged + 1 - first))
		if !all && l.linked-time.Duration(s.after) < confirmFor && now.UnixNano()-s.ended < int64(confirmAway) {
			return
		}
		l.miss(s, &l.missing)
	}
}

// reported takes note that the exchanges up to a record were judged before a restart, and that those that have
// given way until then were reported.
func (l *Ledger) reported(sequence uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.figures.Unlisted -= uint64(l.missing.n + l.twice.n)
	l.missing, l.twice = span{}, span{}
	for i := range l.known.n {
		if s := l.known.at(i); s.sequence <= sequence {
			s.over = true
		}
	}
}

// report adds findings about exchanges that the partner has opened here and not confirmed.
func (l *Ledger) report(now time.Time) {
	l.mu.Lock()
	l.judge(now, false)
	missing, twice := l.missing, l.twice
	if missing.n+twice.n == 0 || now.Sub(l.found) < reportEach {
		l.mu.Unlock()
		return
	}
	l.missing, l.twice, l.found = span{}, span{}, now
	l.mu.Unlock()
	for _, one := range []struct {
		span
		why string
	}{
		{twice, "another exchange with the same msg_id has taken their place"},
		{missing, "its receipts do not have them"},
	} {
		if one.n == 0 {
			continue
		}
		text := fmt.Sprintf("the partner has not confirmed %d exchanges in records %d to %d, which it has opened here: %s", one.n, one.first, one.last, one.why)
		l.b.o.Find(&audit.PartnerFinding{About: audit.OfReceipt, Partner: l.Name(), Identity: l.identity, What: unlisted, Text: text, Of: one.last})
		l.b.o.Observe(Event{Partner: l.Name(), What: unlisted, Text: text, Exchanges: one.n})
	}
}
