package receipts

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/audit"
	"github.com/slimwire/swp/internal/backoff"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// Findings.
const (
	differs     = "differs"     // the two ends say different things of an exchange
	unknown     = "unknown"     // the partner does not know an exchange
	refused     = "refused"     // a receipt of the partner is not valid
	unconfirmed = "unconfirmed" // the partner does not answer receipts as it has to
	unlisted    = "unlisted"    // the partner has not confirmed exchanges that it has opened here
)

// outcomeOf returns the outcome of the record of a finding.
func outcomeOf(what string) string { return "receipt:" + what }

// Ledger has the exchanges with one partner that have no receipt yet.
type Ledger struct {
	b        *Book
	identity string
	seed     maphash.Seed
	offer    atomic.Uint32 // an Offer
	told     atomic.Bool   // the partner has seen in swp.info that it may send receipts

	receiving sync.Mutex // held while a receipt of the partner is examined

	mu      sync.Mutex // guards the following fields
	name    string
	session profiles.Session
	due     ring              // asked
	known   ring              // answered
	index   map[uint64]uint64 // serials in known, by the hash of the msg_id
	sending bool
	last    time.Time // when the last receipt was sent
	number  uint64    // of the last receipt that was signed here
	theirs  uint64    // of the last receipt that the partner has sent
	room    float64   // receipts that may arrive now
	refill  time.Time
	figures Status
	confirming
}

func (l *Ledger) set(p Partner, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass(p.Session != nil, now)
	l.name, l.session = p.Name, p.Session
	if p.Offer == Unknown {
		return // as it was before
	}
	l.offer.Store(uint32(p.Offer))
	switch p.Offer {
	case Listed:
		l.used = true
	case Absent:
		l.judge(now, true)
		l.clear()
	}
}

// forget forgets what waits.
func (l *Ledger) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told.Store(false)
	l.clear()
}

// clear is forget with mu held.
func (l *Ledger) clear() {
	l.figures.Skipped += uint64(l.due.n)
	l.due, l.known = ring{most: maxDue, last: l.due.last}, ring{most: maxKnown, last: l.known.last}
	clear(l.index)
}

// Asked adds an exchange that this endpoint has opened. sequence is the one of its record in
// the trail.
func (l *Ledger) Asked(x *audit.Exchange, sequence uint64) {
	if len(x.MsgID) > e1.DefaultMaxMsgID {
		return // no receipt can name it
	}
	s := newSlot(x, sequence)
	// A partner that does not know yet that it may send receipts has no record for them.
	s.complete = s.complete && Offer(l.offer.Load()) != Unknown
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.due.add(s) {
		l.figures.Skipped++
	}
}

// Answered adds an exchange that the partner has opened. sequence is the one of its record in
// the trail. A later exchange with the same msg_id replaces it.
func (l *Ledger) Answered(x *audit.Exchange, sequence uint64) {
	if len(x.MsgID) > e1.DefaultMaxMsgID {
		return
	}
	s := newSlot(x, sequence)
	key := l.hash(x.MsgID)
	l.mu.Lock()
	defer l.mu.Unlock()
	s.after = int64(l.linked)
	if old := l.find(x.MsgID); old != nil {
		l.miss(old, &l.twice)
	}
	if l.known.n == maxKnown {
		oldest := l.known.at(0)
		l.miss(oldest, &l.missing)
		if of := l.hash(oldest.id()); l.index[of] == oldest.serial {
			delete(l.index, of)
		}
	}
	l.known.add(s)
	l.index[key] = l.known.last
}

func (l *Ledger) hash(id []byte) uint64 { return maphash.Bytes(l.seed, id) }

// find returns the slot of an exchange that the partner has opened; nil if it is not known.
func (l *Ledger) find(id []byte) *slot {
	serial, ok := l.index[l.hash(id)]
	if !ok {
		return nil
	}
	if s := l.known.at(int(serial - l.known.at(0).serial)); bytes.Equal(s.id(), id) {
		return s
	}
	return nil
}

// drop takes an exchange out that the partner will not confirm.
func (l *Ledger) drop(id []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due.remove(func(s *slot) bool { return bytes.Equal(s.id(), id) })
}

// recovered takes note of a receipt in the trail.
func (l *Ledger) recovered(r *audit.Receipt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = true
	confirmed := make(map[string]bool)
	for i := range r.Exchanges {
		x := &r.Exchanges[i]
		if !x.Asked {
			confirmed[string(x.MsgID)] = true
		} else if s := l.find(x.MsgID); s != nil {
			s.kept = true
		}
	}
	if len(confirmed) > 0 {
		l.due.remove(func(s *slot) bool { return confirmed[string(s.id())] })
	} else {
		l.theirs = max(l.theirs, r.Number)
	}
}

func (l *Ledger) status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.figures
	offer := Offer(l.offer.Load())
	s.Partner, s.Used, s.Known, s.Waiting = l.name, offer == Listed, offer == Listed || offer == Absent, l.due.n
	return s
}

// begin returns the session for a receipt that is due, or nil.
func (l *Ledger) begin(now time.Time) profiles.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == nil || Offer(l.offer.Load()) != Listed || l.sending || now.Sub(l.last) < every || len(l.batch(now, 1)) == 0 {
		return nil
	}
	l.sending, l.last = true, now
	return l.session
}

// batch returns the exchanges of the next receipt: those that the partner has a receipt of
// already, or the others. The caller holds mu.
func (l *Ledger) batch(now time.Time, most int) (list []item) {
	for i := 0; i < l.due.n && len(list) < most; i++ {
		if s := l.due.at(i); s.due(now) && (len(list) == 0 || s.repeated == list[0].repeated) {
			list = append(list, s.item())
		}
	}
	return list
}

// send sends a receipt and examines the answer.
func (l *Ledger) send(ctx context.Context, session profiles.Session) {
	defer func() {
		l.mu.Lock()
		l.sending = false
		l.mu.Unlock()
	}()
	now := time.Now()
	l.mu.Lock()
	batch := l.batch(now, audit.MaxExchanges)
	l.mu.Unlock()
	if len(batch) == 0 {
		return // forgotten in the meantime
	}
	mine, err := l.sign(batch, now)
	if err != nil {
		l.failed(batch, "it cannot be signed here: "+err.Error())
		return
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	octets, err := l.b.o.Call(limited, session, mine.Append(nil))
	fault, said := errors.AsType[*rpc.Error](err)
	switch {
	case said && fault.Retryable:
	case said:
		l.failed(batch, "the partner refuses it: "+fault.Message)
	case err != nil: // the link is down, or the partner is slow: later
	default:
		if err := l.answer(batch, octets, now); err != nil {
			l.failed(batch, "the answer to a receipt: "+err.Error())
		}
	}
}

// sign returns a receipt about exchanges.
func (l *Ledger) sign(batch []item, now time.Time) (*audit.Receipt, error) {
	l.mu.Lock()
	l.number = max(l.number+1, uint64(max(0, now.UnixMilli()))) // also after a restart
	r := &audit.Receipt{Signer: l.b.o.Self(), Partner: l.identity, Number: l.number, Time: now, Exchanges: make([]audit.Exchange, len(batch))}
	l.mu.Unlock()
	for i := range batch {
		r.Exchanges[i] = batch[i].x
	}
	return r, r.Sign(l.b.o.Certificate())
}

// The answer to a receipt begins with one of these octets.
const (
	answerReceipt = 0 // the receipt of the other end about the same exchanges
	answerSorted  = 1 // an octet for each exchange, see below: nothing was kept
)

// What the octets of answerSorted say of an exchange.
const (
	sortNew      = 0 // it can have a receipt
	sortUnknown  = 1 // there is no such exchange, or it has not ended
	sortRepeated = 2 // it has a receipt
)

var errSorted = errors.New("it does not say what is wrong with which exchange")

// answer examines the answer to a receipt.
func (l *Ledger) answer(batch []item, octets []byte, now time.Time) error {
	if len(octets) == 0 {
		return errSorted
	}
	if octets[0] == answerSorted {
		return l.sorted(batch, octets[1:], now)
	}
	if octets[0] != answerReceipt {
		return fmt.Errorf("its kind is %d", octets[0])
	}
	theirs, err := audit.ParseReceipt(octets[1:])
	if err == nil {
		err = l.verify(theirs)
	}
	if err != nil {
		return err
	}
	if len(theirs.Exchanges) != len(batch) {
		return fmt.Errorf("it is about %d exchanges, want %d", len(theirs.Exchanges), len(batch))
	}
	for i := range batch {
		if x := &theirs.Exchanges[i]; x.Asked || !bytes.Equal(x.MsgID, batch[i].x.MsgID) {
			return fmt.Errorf("exchange %d is another one", i)
		}
	}
	if _, err := l.b.o.Keep(l.Name(), theirs); err != nil {
		return nil // the trail cannot be written, and says so; later
	}
	l.over(batch)
	l.compare(batch, theirs)
	l.mu.Lock()
	l.figures.Sent++
	l.mu.Unlock()
	return nil
}

// sorted examines an answer without a receipt.
func (l *Ledger) sorted(batch []item, of []byte, now time.Time) error {
	if len(of) != len(batch) || !slices.ContainsFunc(of, func(kind byte) bool { return kind != sortNew }) {
		return errSorted
	}
	if slices.ContainsFunc(of, func(kind byte) bool { return kind > sortRepeated }) {
		return errSorted
	}
	var lost []item
	l.mu.Lock()
	l.due.each(batch, func(i int, s *slot) {
		switch kind := of[i]; {
		case kind == sortNew:
		case kind == sortRepeated && !s.repeated:
			s.repeated = true
		default: // it is unknown, or was sent as repeated
			s.retry(now)
		}
		switch {
		case of[i] != sortUnknown || s.tries < maxTries:
		case s.complete:
			s.over = true
			lost = append(lost, batch[i])
			l.figures.Unknown++
		case now.UnixNano()-s.ended > int64(mayLast): // the request has not arrived
			s.over = true
			l.figures.Skipped++
		}
	})
	l.compact()
	l.mu.Unlock()
	for i := range lost {
		l.note(unknown, &lost[i], "the partner does not know the exchange")
	}
	if len(lost) > 0 {
		l.b.o.Observe(Event{Partner: l.Name(), What: unknown, Text: "the partner does not know exchanges that this endpoint has had with it", Exchanges: len(lost)})
	}
	return nil
}

// retry notes that a receipt has failed, and when the next one is due.
func (s *slot) retry(now time.Time) {
	s.tries = min(s.tries+1, 200)
	s.after = now.Add(pauses.After(int(s.tries) - 1)).UnixNano()
}

var pauses = backoff.Exponential{First: every, Longest: longPause}

// failed puts exchanges back whose receipt has failed, maxTries times.
func (l *Ledger) failed(batch []item, why string) {
	now := time.Now()
	lost := 0
	l.mu.Lock()
	l.due.each(batch, func(_ int, s *slot) {
		if s.retry(now); s.tries >= maxTries {
			s.over = true
			lost++
		}
	})
	l.compact()
	l.figures.Skipped += uint64(lost)
	l.mu.Unlock()
	if lost > 0 {
		first, last := batch[0].sequence, batch[len(batch)-1].sequence
		text := fmt.Sprintf("no receipt for %d exchanges in records %d to %d: %s", lost, first, last, why)
		l.note(unconfirmed, nil, text)
		l.b.o.Observe(Event{Partner: l.Name(), What: unconfirmed, Text: text, Exchanges: lost})
	}
}

// over takes exchanges out that need no receipt any more.
func (l *Ledger) over(batch []item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due.each(batch, func(_ int, s *slot) { s.over = true })
	l.compact()
}

func (l *Ledger) compact() {
	l.due.remove(func(s *slot) bool { return s.over })
}

// compare compares the statements of a partner with the records of this endpoint.
func (l *Ledger) compare(own []item, theirs *audit.Receipt) {
	wrong := 0
	for i := range own {
		in := own[i].x.Differs(&theirs.Exchanges[i])
		if in == "" {
			continue
		}
		wrong++
		l.note(differs, &own[i], fmt.Sprintf("the two ends differ in the %s; receipt %d of the partner has its statement", in, theirs.Number))
	}
	l.mu.Lock()
	l.figures.Differing += uint64(wrong)
	l.figures.Confirmed += uint64(len(own) - wrong)
	l.mu.Unlock()
	if wrong > 0 {
		l.b.o.Observe(Event{Partner: l.Name(), What: differs, Text: "the two ends of exchanges say different things of them", Exchanges: wrong})
	}
}

// note adds a finding to the trail, about an exchange or about none.
func (l *Ledger) note(what string, of *item, text string) {
	f := &audit.PartnerFinding{About: audit.OfReceipt, Partner: l.Name(), Identity: l.identity, What: what, Text: text}
	if of != nil {
		f.Of, f.MsgID = of.sequence, of.x.MsgID
	}
	l.b.o.Find(f)
}

// Name returns the name of the partner.
func (l *Ledger) Name() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.name
}

// verify verifies a receipt of the partner for this endpoint.
func (l *Ledger) verify(r *audit.Receipt) error {
	now := time.Now()
	switch self := l.b.o.Self(); {
	case r.Signer != l.identity:
		return fmt.Errorf("it is of %.512q, want %q", r.Signer, l.identity)
	case r.Partner != self:
		return fmt.Errorf("it is for %.512q, want %q", r.Partner, self)
	case r.Time.Sub(now).Abs() > skew:
		return fmt.Errorf("its time is %s, and now is %s", r.Time.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	roots := l.b.o.Roots(l.identity)
	return r.Verify(func(signer string, chain []*x509.Certificate, _ time.Time) error {
		return audit.TrustOf(l.identity, roots)(signer, chain, now)
	})
}
