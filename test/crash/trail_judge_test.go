package crash

import (
	"slices"
	"time"
)

// overtaken is how many exchanges of a session may end at the far end behind one that is on
// its way back, and have their record at the near end before it.
const overtaken = 1000

// onItsWay is how long an answer may be on its way back at least, however many overtake it: a loaded
// machine may leave one stream of a session aside for so long.
const onItsWay = 5 * time.Second

// judgeNear wants a record of each exchange that a client had an answer to, with the digests
// of what the client sent and got, and no record of what no client opened.
func judgeNear(n *noted, tr *trail, wrong func(string, ...any)) {
	left := make(map[[2]string]int)
	for key, answered := range n.answered {
		left[key] = answered.n
	}
	for i := range tr.clients {
		r := &tr.clients[i]
		if !n.opened[r.Request] {
			wrong("record %d of %s: no client has asked for it: %s %s %s", r.Sequence, tr.name, r.Profile, r.Operation, r.Name)
		}
		left[[2]string{r.Request, r.Answer}]--
	}
	for key, missing := range left {
		if missing > 0 && !n.parts[key[0]] {
			wrong("%d exchanges (%s) were answered and have no record at %s: request %s, answer %s", missing, n.answered[key].typ, tr.name, key[0], key[1])
		}
	}
}

// judgeLink holds what one end has asked the other against what the other one was asked. lives
// are those of the swpd of each.
func judgeLink(near, far *trail, nearLives, farLives []lived, wrong func(string, ...any)) {
	sent, there := make(map[string]*record), make(map[string]*record)
	for i := range near.sent {
		sent[near.sent[i].MsgID] = &near.sent[i]
	}
	for i := range far.partner {
		there[far.partner[i].MsgID] = &far.partner[i]
	}
	for _, s := range sent {
		answered := s.AnswerType > 0
		switch f := there[s.MsgID]; {
		case f != nil:
			here, _ := s.Crossed()
			other, _ := f.Crossed()
			if in := here.Differs(&other); in != "" {
				wrong("record %d of %s and record %d of %s differ in the %s", s.Sequence, near.name, f.Sequence, far.name, in)
			}
		case !answered, s.Incomplete && killedAfter(farLives, s): // nothing says that it arrived, or that it ended
		default:
			wrong("record %d of %s: %s has answered it, and has no record of it: %s %s", s.Sequence, near.name, far.name, s.Profile, s.Operation)
		}
	}
	behind := make(map[[2]uint64]int) // with a record at the near end, by life and session
	for _, f := range slices.Backward(far.partner) {
		if f.MsgID == "" { // it belongs to another exchange, so that receipts do not have it: RELAY_NACK
			continue
		}
		session := [2]uint64{uint64(f.life), f.Session}
		if sent[f.MsgID] != nil {
			behind[session]++
			continue
		}
		// A range of a download comes in as fast as a client takes it.
		paced := f.Profile == "artifact" && f.Operation == "get"
		late := f.Outcome != "lost" && !paced && behind[session] > overtaken && !killedWithin(nearLives, &f, onItsWay)
		if late || !killedAfter(nearLives, &f) {
			wrong("record %d of %s: %s has no record that it asked for it: %s %s %s", f.Sequence, far.name, near.name, f.Profile, f.Operation, f.Name)
		}
	}
	for _, f := range near.findings {
		// Who is killed has no records of what it had not written, and so no receipts.
		if f.Outcome == "receipt:unlisted" && slices.ContainsFunc(farLives, func(l lived) bool { return l.killed.Before(f.Time) }) {
			continue
		}
		wrong("record %d of %s: %s: %s", f.Sequence, near.name, f.Outcome, f.Reason)
	}
}

// underWay is how long a message may take to be read: its sender may be killed before.
const underWay = 10 * time.Second

// killedAfter reports whether a swpd was killed in the life in which an exchange may have been
// open there.
func killedAfter(lives []lived, r *record) bool {
	began := r.Time.Add(-r.Took - underWay)
	return slices.ContainsFunc(lives, func(l lived) bool {
		return !l.killed.Before(began) && l.killed.Sub(r.Time) <= unheard
	})
}

// killedWithin reports whether a swpd was killed within a time after a record.
func killedWithin(lives []lived, r *record, d time.Duration) bool {
	return slices.ContainsFunc(lives, func(l lived) bool {
		return !l.killed.Before(r.Time) && l.killed.Sub(r.Time) <= d
	})
}

// judgeErrands wants a record of everything that was done, at both ends, and nothing done that
// no journal knows.
func judgeErrands(h *history, near, far *trail, wrong func(string, ...any)) {
	least := h.errands()
	for _, end := range []struct {
		at      *trail
		records []record
		via     string
	}{{near, near.clients, far.name}, {far, far.partner, ""}} {
		done := make(map[errand]int)
		for i := range end.records {
			r := &end.records[i]
			if r.Partner != end.via || r.Outcome != "ok" {
				continue
			}
			e, ok := errandOf(r, end.via)
			if !ok {
				continue
			}
			done[e]++
			if _, known := least[e]; !known {
				wrong("record %d of %s: no journal knows of this %s %s", r.Sequence, end.at.name, e.what, e.of)
			}
		}
		for e, n := range least {
			if done[e] < n {
				wrong("%s has %d records of %s %s that are ok, want %d at least", end.at.name, done[e], e.what, e.of, n)
			}
		}
	}
}
