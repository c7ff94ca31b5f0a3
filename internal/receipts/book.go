// Package receipts exchanges receipts of exchanges with partners: each end signs what has
// crossed the link, and keeps what the other end has signed.
//
// The end that opened exchanges lists up to 1,000 of them in a receipt and sends it by the
// RPC method swp.audit.receipt, at most once a second. The other end compares it with its
// own records, keeps it, and answers with its own receipt about the same exchanges, which
// the first end compares and keeps. An exchange has the same name at both ends: the
// identities of the ends and its msg_id.
//
// A receipt is kept only if every exchange in it is known here and has no receipt yet.
// Otherwise the answer says which are unknown or repeated, nothing is kept, and the sender
// sends the others again. So a partner cannot fill the trail with statements about nothing.
//
// What waits for a receipt is in memory, within bounds, and in the trail: Recover finds it
// again after a restart.
//
// A partner that exchanges receipts confirms the exchanges that it has opened here. At the answering end
// an exchange that is not confirmed in time is a finding.
//
// Specification: docs/wire.md, "Receipts".
package receipts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/internal/audit"
	"github.com/slimwire/swp/profiles"
)

// Options configure a Book. Nil functions are not allowed.
type Options struct {
	Self        func() string                        // identity of this endpoint
	Certificate func() *tls.Certificate              // signs
	Roots       func(identity string) *x509.CertPool // authorities of a partner

	Partners func() []Partner // the present state of the links

	// Keep writes a receipt of a partner to the trail, and returns its sequence. Find adds
	// a finding.
	Keep func(partner string, r *audit.Receipt) (uint64, error)
	Find func(f *audit.PartnerFinding)

	// Call calls the method of a partner.
	Call func(ctx context.Context, s profiles.Session, params []byte) ([]byte, error)

	// Observe is called for findings for the operator. It must not block.
	Observe func(e Event)
}

// Event is something wrong with receipts.
type Event struct {
	Partner   string
	What      string // one word, as in the trail
	Text      string
	Exchanges int // how many it is about; 0: a whole receipt
}

// Limits of the waiting receipts of each partner.
const (
	maxDue   = 8192       // exchanges that were asked and have no receipt
	maxKnown = 2 * maxDue // exchanges that were answered, with and without a receipt

	every    = time.Second      // shortest time between two receipts
	lookEach = every / 4        // interval of looking for what is due
	patience = 10 * time.Second // for the answer of a partner
	skew     = 5 * time.Minute  // of the clocks
	burst    = 3                // receipts that may arrive at once

	// A partner that does not know an exchange is asked maxTries times. If no answer has
	// arrived here the exchange may still go on there, so it is asked for as long as mayLast.
	maxTries  = 6
	mayLast   = 10 * time.Minute
	longPause = 30 * time.Second

	// A partner confirms what it has opened here while it is connected for confirmFor, which is longer than
	// mayLast, and within confirmAway in any case.
	confirmFor  = 15 * time.Minute
	confirmAway = 24 * time.Hour
	reportEach  = time.Minute // shortest time between two findings about what it has not confirmed
)

// Book has the receipts of all partners. It is safe for concurrent use.
type Book struct {
	o      Options
	on     atomic.Bool
	looked atomic.Bool // at the links, at least once

	mu      sync.Mutex // guards changes of ledgers
	ledgers atomic.Pointer[map[string]*Ledger]
	changed chan struct{}
}

// New returns a Book that is off.
func New(o Options) *Book {
	b := &Book{o: o, changed: make(chan struct{}, 1)}
	none := make(map[string]*Ledger)
	b.ledgers.Store(&none)
	return b
}

// Enable turns the receipts on or off. Off forgets what waits.
func (b *Book) Enable(on bool) {
	if b.on.Swap(on) && !on {
		for _, l := range *b.ledgers.Load() {
			l.forget()
		}
	}
}

// Offer says whether a partner lists the method in its swp.info.
type Offer uint8

// Values of Offer.
const (
	Unknown Offer = iota // there was no session yet
	Silent               // it is not asked, because it has not answered
	Absent
	Listed
)

// Partner is the present state of the link to a partner.
type Partner struct {
	Name, Identity string
	Session        profiles.Session // nil while it is away
	Offer          Offer
}

// look takes up the present state of the links.
func (b *Book) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	list, now := b.o.Partners(), time.Now()
	old := *b.ledgers.Load()
	next, same := make(map[string]*Ledger, len(list)), len(list) == len(old)
	for _, p := range list {
		l := old[p.Identity]
		if l == nil {
			l, same = b.ledger(p.Identity), false
		}
		next[p.Identity] = l
		l.set(p, now)
	}
	if !same {
		b.ledgers.Store(&next)
	}
	b.looked.Store(true)
}

func (b *Book) ledger(identity string) *Ledger {
	return &Ledger{
		b: b, identity: identity, seed: maphash.MakeSeed(), index: make(map[uint64]uint64), due: ring{most: maxDue}, known: ring{most: maxKnown},
	}
}

// of returns the ledger of a partner; nil if it is none, or if receipts are off.
func (b *Book) of(identity string) *Ledger {
	if !b.on.Load() {
		return nil
	}
	return (*b.ledgers.Load())[identity]
}

// Asks returns the ledger for exchanges that are opened at a partner; nil if there are no
// receipts for them. The first exchanges of a link may come before Run has looked at it, and
// before the partner has said whether it exchanges receipts: that it does is assumed then.
func (b *Book) Asks(identity string) *Ledger {
	l := b.of(identity)
	if l == nil && b.on.Load() && !b.looked.Load() {
		b.look()
		l = b.of(identity)
	}
	if l == nil {
		return nil
	}
	if offer := Offer(l.offer.Load()); offer != Listed && offer != Unknown {
		return nil
	}
	return l
}

// Answers returns the ledger for exchanges that a partner opens; nil if there are no
// receipts for them.
func (b *Book) Answers(identity string) *Ledger {
	if l := b.of(identity); l != nil && l.told.Load() && Offer(l.offer.Load()) != Absent {
		return l
	}
	return nil
}

// Tell reports whether the method is listed in swp.info for a partner, which may use it from
// then on.
func (b *Book) Tell(identity string) bool {
	l := b.of(identity)
	if l == nil && b.on.Load() { // a new one
		b.look()
		l = b.of(identity)
	}
	if l != nil {
		l.told.Store(true)
	}
	return l != nil
}

// Recover takes up what had no receipt when the process ended. Call it before Enable.
func (b *Book) Recover(entries iter.Seq[*audit.Entry]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := maps.Clone(*b.ledgers.Load())
	of := func(identity string) *Ledger {
		if all[identity] == nil {
			all[identity] = b.ledger(identity)
			all[identity].told.Store(true) // else there would be no such records
		}
		return all[identity]
	}
	for e := range entries {
		switch x, ok := e.Crossed(); {
		case ok && x.Asked:
			of(e.Other).Asked(&x, e.Sequence)
		case ok:
			of(e.Identity).Answered(&x, e.Sequence)
		case e.Finding() && e.Outcome == outcomeOf(unlisted):
			of(e.Identity).reported(e.Of)
		case e.Finding():
			if id, err := hex.DecodeString(e.MsgID); err == nil && e.Outcome != outcomeOf(differs) {
				of(e.Identity).drop(id)
			}
		case len(e.Receipt) > 0:
			if r, err := audit.ParseReceipt(e.Receipt); err == nil {
				of(e.Identity).recovered(r)
			}
		}
	}
	b.ledgers.Store(&all)
}

// Run sends receipts until ctx ends.
func (b *Book) Run(ctx context.Context) {
	var sending sync.WaitGroup
	defer sending.Wait()
	ticker := time.NewTicker(lookEach)
	defer ticker.Stop()
	for {
		if b.on.Load() {
			b.look()
			for _, l := range *b.ledgers.Load() {
				l.report(time.Now())
				if session := l.begin(time.Now()); session != nil {
					sending.Go(func() { l.send(ctx, session) })
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-b.changed:
		}
	}
}

// Changed has Run look at the partners at once.
func (b *Book) Changed() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// Status is the state of the receipts with a partner.
type Status struct {
	Partner string `json:"partner"`
	Used    bool   `json:"used"`  // the partner lists the method
	Known   bool   `json:"known"` // it has said whether it does

	Waiting   int    `json:"waiting"`   // exchanges at the partner without its receipt
	Sent      uint64 `json:"sent"`      // receipts, each with the answer that was kept
	Received  uint64 `json:"received"`  // receipts that were kept and answered
	Refused   uint64 `json:"refused"`   // receipts that were neither
	Confirmed uint64 `json:"confirmed"` // exchanges of which both ends say the same
	Differing uint64 `json:"differing"` // exchanges of which they do not
	Unknown   uint64 `json:"unknown"`   // exchanges that the partner does not know
	Skipped   uint64 `json:"skipped"`   // exchanges without a receipt, for lack of room or of an answer
	Unlisted  uint64 `json:"unlisted"`  // exchanges that the partner has opened here and has not confirmed
}

// Status returns the state for each partner, by name.
func (b *Book) Status() []Status {
	list := []Status{}
	if b.on.Load() {
		for _, l := range *b.ledgers.Load() {
			list = append(list, l.status())
		}
	}
	slices.SortFunc(list, func(x, y Status) int { return strings.Compare(x.Partner, y.Partner) })
	return list
}
