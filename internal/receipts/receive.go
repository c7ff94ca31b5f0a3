package receipts

import (
	"context"
	"slices"
	"time"

	"github.com/slimwire/swp/internal/audit"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// Receive is the method swp.audit.receipt: it examines the receipt of a partner, and
// returns the answer.
func (b *Book) Receive(_ context.Context, peer *profiles.Peer, params []byte) ([]byte, error) {
	l := b.of(peer.Identity)
	if l == nil {
		return nil, &rpc.Error{Code: rpc.CodeUnauthorized, Message: "receipts are exchanged with partners of this endpoint, if audit.receipts is on"}
	}
	if !l.admit(time.Now()) {
		return nil, &rpc.Error{Code: rpc.CodeUnavailable, Message: "more than one receipt a second", Retryable: true}
	}
	l.receiving.Lock()
	defer l.receiving.Unlock()
	r, err := audit.ParseReceipt(params)
	if err == nil {
		err = l.verify(r)
	}
	if err != nil {
		return nil, l.refuse(err.Error())
	}
	own, kinds, fault := l.sort(r)
	switch {
	case fault != "":
		return nil, l.refuse(fault)
	case own == nil:
		return append([]byte{answerSorted}, kinds...), nil
	}
	if kinds[0] == sortNew {
		if _, err := b.o.Keep(l.Name(), r); err != nil {
			return nil, &rpc.Error{Code: rpc.CodeUnavailable, Message: "the receipt cannot be kept now", Retryable: true}
		}
		l.keep(own)
		l.compare(own, r)
	}
	mine, err := l.sign(own, time.Now())
	if err != nil {
		return nil, err
	}
	return mine.Append([]byte{answerReceipt}), nil
}

// admit reports whether another receipt may arrive now.
func (l *Ledger) admit(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refill.IsZero() {
		l.room = burst
	}
	l.room = min(burst, l.room+float64(now.Sub(l.refill))/float64(every))
	l.refill = now
	if l.room < 1 {
		return false
	}
	l.room--
	return true
}

// refuse records that a receipt is not valid, and returns the error for the partner.
func (l *Ledger) refuse(why string) error {
	l.mu.Lock()
	l.figures.Refused++
	l.mu.Unlock()
	l.note(refused, nil, why)
	l.b.o.Observe(Event{Partner: l.Name(), What: refused, Text: why})
	return &rpc.Error{Code: rpc.CodeInvalidRequest, Message: "the receipt is not valid: " + why}
}

// sort looks the exchanges of a receipt up. It returns the kind of each; and if all are new,
// or all are repeated, what this endpoint knows of them. fault says what makes the whole
// receipt invalid.
func (l *Ledger) sort(r *audit.Receipt) (own []item, kinds []byte, fault string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Number <= l.theirs {
		return nil, nil, "it was sent before, or after a later one"
	}
	seen := make(map[string]bool, len(r.Exchanges))
	for i := range r.Exchanges {
		x := &r.Exchanges[i]
		key := string(x.MsgID)
		if !x.Asked {
			return nil, nil, "it is about exchanges that its signer has answered"
		}
		if seen[key] {
			return nil, nil, "it is about one exchange twice"
		}
		seen[key] = true
		s := l.find(x.MsgID)
		switch {
		case s == nil:
			kinds = append(kinds, sortUnknown)
			continue
		case s.kept:
			kinds = append(kinds, sortRepeated)
		default:
			kinds = append(kinds, sortNew)
		}
		own = append(own, s.item())
	}
	if len(own) > 0 { // else anything could be said of nothing, and no later receipt would count
		l.theirs = r.Number
	}
	if kinds[0] == sortUnknown || slices.ContainsFunc(kinds, func(kind byte) bool { return kind != kinds[0] }) {
		return nil, kinds, ""
	}
	return own, kinds, ""
}

// keep takes note that exchanges have a receipt.
func (l *Ledger) keep(own []item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.figures.Received++
	for i := range own {
		if s := l.find(own[i].x.MsgID); s != nil {
			s.kept = true
		}
	}
}
