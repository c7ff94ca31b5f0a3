package endpoint

import (
	"context"
	"crypto/sha256"
	"hash"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// Recorder keeps a record of each exchange that a peer opens, written before the peer can
// have its terminal answer. Its methods are called from many goroutines at once, often on a
// read loop. Admit, Begin and Record must not block; Commit may wait for a disk.
type Recorder interface {
	// Admit is asked before the message that opens an exchange is handled. An error refuses
	// the message: records cannot be kept.
	Admit(req *profiles.Request) error

	// Begin is called for an exchange that has lasted as long as RecordLong was told. The
	// Outcome of the Report is not known yet. The Report of Record contains the result of
	// Begin.
	Begin(r Report) uint64

	// Record is called once for each exchange: before its terminal answer is sent, or when
	// it has ended without an answer. The Report is valid until Record returns. It is not
	// known yet whether the peer receives the answer. If the answer cannot be sent for lack
	// of room and an error replaces it, Record is called again, with the result of the
	// first call as Begun.
	Record(r Report) uint64

	// Commit is called before octets are sent to a peer. It returns when all earlier
	// records are written.
	Commit()
}

// record is what the Recorder is told beside an account.
type record struct {
	request  [sha256.Size]byte
	hashed   bool      // request is known
	answer   hash.Hash // of payloads
	answered bool
	begun    uint64
	over     bool // Record was called
}

var records = sync.Pool{New: func() any { return &record{answer: sha256.New()} }}

// recording returns the record of an exchange.
func (a *account) recording() *record {
	if a.record == nil {
		a.record = records.Get().(*record) //nolint:errcheck // the pool holds nothing else
	}
	return a.record
}

// digest adds a message to the sum of the answers.
func (a *account) digest(env *e1.Envelope) {
	r := a.recording()
	r.answered = true
	r.answer.Write(env.Payload)
	r.answer.Write(env.Tail)
}

// digestRequest takes the sum of the request, while its octets are there.
func (e *Endpoint) digestRequest(a *account, req *profiles.Request) {
	if e.recorder == nil || !a.opens {
		return
	}
	if r := a.recording(); !r.hashed {
		r.request, r.hashed = sha256.Sum256(req.Payload), true
	}
}

// record records an exchange unless that was done.
func (s *Session) record(a *account, req *profiles.Request, v *Verdict, ctx context.Context, gone bool) {
	keeper := s.ep.recorder
	if keeper == nil || !a.opens {
		return
	}
	s.ep.digestRequest(a, req)
	r := a.record
	if r.over {
		return
	}
	r.over = true
	report := s.reportOf(a, v, ctx, gone)
	r.fill(&report)
	r.begun = keeper.Record(report)
}

// admit asks the Recorder for a message that opens an exchange.
func (l *lane) admit() error {
	if keeper := l.s.ep.recorder; keeper != nil && l.account.opens {
		return keeper.Admit(&l.req)
	}
	return nil
}

// fill adds what only a Recorder is told.
func (r *record) fill(report *Report) {
	report.Request, report.Begun = r.request, r.begun
	if r.answered {
		r.answer.Sum(report.Answer[:0])
	}
}

// last records an exchange of which the terminal answer is about to be sent. fault is what
// it was refused for, nil if it was not.
func (l *lane) last(a *account, req *profiles.Request, fault *profiles.Error, ctx context.Context) {
	if l.s.ep.recorder == nil || !a.opens {
		return
	}
	v := Verdict{
		Session: l.s, Lane: l.id, ProfileID: req.ProfileID, MsgType: req.MsgType, Flags: req.Flags, MsgID: req.MsgID, Bytes: a.size,
	}
	if fault != nil {
		a.recording().over = false // the recorded answer was not sent
		v.Code, v.Detail, v.Err, v.Reject = fault.Code, fault.Detail, fault, !fault.Domain
	}
	l.s.record(a, req, &v, ctx, false)
}

// forget gives the record of an exchange back that has ended.
func (a *account) forget() {
	if r := a.record; r != nil {
		r.answer.Reset()
		*r = record{answer: r.answer}
		records.Put(r)
		a.record = nil
	}
}

// RecordLong calls Recorder.Begin for exchanges that were opened before a time and are in
// flight, once for each. Nil or without a Recorder it does nothing.
func (e *Endpoint) RecordLong(before time.Time) {
	if e == nil || e.recorder == nil {
		return
	}
	for s := range e.Sessions() {
		s.mu.Lock()
		var long []*exchange
		for _, x := range s.inflight {
			if x.account.began.Before(before) {
				long = append(long, x)
			}
		}
		s.mu.Unlock()
		for _, x := range long {
			x.recordBegin()
		}
	}
}

func (e *exchange) recordBegin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done || e.answered || !e.account.opens {
		return
	}
	e.s.ep.digestRequest(&e.account, &e.req)
	r := e.account.record
	if r.over || r.begun > 0 {
		return
	}
	v := Verdict{Session: e.s, Lane: e.l.id, Seq: e.seq, ProfileID: e.req.ProfileID, MsgType: e.req.MsgType, Flags: e.req.Flags, MsgID: e.req.MsgID, Bytes: e.size}
	report := e.s.reportOf(&e.account, &v, e.ctx, false)
	report.Outcome = profiles.OutcomeOpen
	r.fill(&report)
	r.begun = e.s.ep.recorder.Begin(report)
}
