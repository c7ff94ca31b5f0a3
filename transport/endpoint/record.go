package endpoint

import (
	"bytes"
	"context"
	"crypto/sha256"
	"hash"
	"sync"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
)

// Recorder keeps a record of each exchange that a peer opens, written before the peer can
// have its terminal answer. Its methods are called from many goroutines at once, often on a
// read loop. Admit, Begin and Record must not block; Commit may wait for a disk.
type Recorder interface {
	// Keeps reports whether there may be a record of the exchange that a message opens. It is
	// asked when the message has been read, before the rules are, about an envelope that is
	// valid until Keeps returns. If it returns false, no sums of octets are computed, and no
	// other method is called for the exchange.
	Keeps(env *e1.Envelope) bool

	// Admit is asked before the message that opens an exchange is handled. An error refuses
	// the message: records cannot be kept.
	Admit() error

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

	// Commit is called before a terminal answer is sent to a peer. It returns when all
	// earlier records are written.
	Commit()
}

// CallRecorder is a Recorder that also keeps records of exchanges that this side opens. The
// rules of Recorder apply.
type CallRecorder interface {
	// Records reports whether RecordCall is to be called for the exchange that env opens.
	Records(s *Session, env *e1.Envelope) bool

	// RecordCall is called once for each such exchange that was sent: before Recv returns
	// its terminal answer, or when the call is closed without one; for a message of Send as
	// soon as it is queued. The CallReport is valid until RecordCall returns.
	RecordCall(r CallReport)
}

// CallReport describes an exchange that this side opened and that has ended.
type CallReport struct {
	Session            *Session
	ProfileID, MsgType uint64 // of the request
	MsgID              []byte
	Profile, Type      string // names of them; empty if the profile is not served here
	Digests
	Complete bool          // the terminal answer has arrived, or an error frame in its place
	Fault    error         // the peer refused the request, or the connection was lost; else nil
	Began    time.Time     // when the request was sent, by Options.Now
	Took     time.Duration // until the end
	Sent     int           // octets of the frame of the request, and of those of the answers
	Received int
	Context  context.Context // of the caller, for its values
}

// Digests are SHA-256 sums of the octets of one exchange on a connection. Both ends
// compute the same. A zero sum stands for absent octets.
type Digests struct {
	// Request and Answer are sums of payloads: of the message that opened the exchange, and
	// of its answers one behind the other.
	Request, Answer [sha256.Size]byte

	// Caller and Target are sums of the extensions 51 and 52 of the request.
	Caller, Target [sha256.Size]byte

	AnswerType uint64 // msg_type of the last answer; 0: there was none
}

// record collects the Digests of an exchange.
type record struct {
	digests Digests
	hashed  bool      // those of the request are known
	answer  hash.Hash // of payloads
	answers int
	begun   uint64
	over    bool // Record was called
}

var records = &sync.Pool{New: func() any { return &record{answer: sha256.New()} }}

// recording returns the record of an exchange.
func (a *account) recording() *record {
	if a.record == nil {
		a.record = newRecord()
	}
	return a.record
}

func newRecord() *record {
	return records.Get().(*record) //nolint:errcheck // the pool holds nothing else
}

// answered adds a message to the sum of the answers.
func (r *record) answered(env *e1.Envelope) {
	r.answers++
	r.digests.AnswerType = env.MsgType
	r.answer.Write(env.Payload)
	r.answer.Write(env.Tail)
}

// asked takes the sums of the request, while its octets are there.
func (r *record) asked(env *e1.Envelope) {
	if r.hashed {
		return
	}
	r.hashed = true
	if len(env.Tail) == 0 {
		r.digests.Request = sha256.Sum256(env.Payload)
	} else {
		sum := sha256.New()
		sum.Write(env.Payload)
		sum.Write(env.Tail)
		sum.Sum(r.digests.Request[:0])
	}
	if len(env.Extensions) == 0 { // the usual case
		return
	}
	if v, ok := env.Extensions.Lookup(profiles.ExtCaller); ok {
		r.digests.Caller = sha256.Sum256(v)
	}
	if v, ok := env.Extensions.Lookup(profiles.ExtTarget); ok {
		r.digests.Target = sha256.Sum256(v)
	}
}

// sums returns the digests so far.
func (r *record) sums() Digests {
	d := r.digests
	if r.answers > 0 {
		r.answer.Sum(d.Answer[:0])
	}
	return d
}

// free gives a record back.
func (r *record) free() {
	r.answer.Reset()
	*r = record{answer: r.answer}
	records.Put(r)
}

// digestRequest takes the sums of the request, once.
func (a *account) digestRequest(req *profiles.Request) {
	if a.kept {
		a.recording().asked(&req.Envelope)
	}
}

// record records an exchange unless that was done.
func (s *Session) record(a *account, req *profiles.Request, v *Verdict, ctx context.Context, gone bool) {
	if !a.kept {
		return
	}
	a.digestRequest(req)
	r := a.record
	if r.over {
		return
	}
	r.over = true
	report := s.reportOf(a, req, v, ctx, gone)
	r.fill(&report)
	r.begun = s.ep.recorder.Record(report)
	s.recorded.Add(1)
}

// admit asks the Recorder for a message that opens an exchange.
func (l *lane) admit() error {
	if l.account.kept {
		return l.s.ep.recorder.Admit()
	}
	return nil
}

// fill adds what only a Recorder is told.
func (r *record) fill(report *Report) {
	report.Digests, report.Begun = r.sums(), r.begun
}

// last records an exchange of which the terminal answer is about to be sent. fault is what
// it was refused for, nil if it was not.
func (l *lane) last(a *account, req *profiles.Request, fault *profiles.Error, ctx context.Context) {
	if !a.kept {
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
	if a.record != nil {
		a.record.free()
		a.record = nil
	}
}

// unsent takes a terminal answer back that is not sent, because an error replaces it. Of an
// exchange with other answers the sum stays that of all, with the one that was not sent.
func (a *account) unsent() {
	if r := a.record; r != nil && r.answers == 1 {
		r.answer.Reset()
		r.answers, r.digests.AnswerType = 0, 0
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
	if e.done || e.answered || !e.account.kept {
		return
	}
	r := e.account.record
	if r.over || r.begun > 0 {
		return
	}
	v := Verdict{Session: e.s, Lane: e.l.id, Seq: e.seq, ProfileID: e.req.ProfileID, MsgType: e.req.MsgType, Flags: e.req.Flags, MsgID: e.req.MsgID, Bytes: e.size}
	report := e.s.reportOf(&e.account, &e.req, &v, e.ctx, false)
	report.Outcome = profiles.OutcomeOpen
	r.fill(&report)
	r.begun = e.s.ep.recorder.Begin(report)
}

// callRecord is the record of a call.
type callRecord struct {
	record   *record
	profile  uint64
	typ      uint64
	began    time.Time
	sent     int
	received int
	whole    bool // all answers were received: a lone one, or as the caller says
	ctx      context.Context
}

func newCallRecord(ctx context.Context, env *e1.Envelope, now time.Time) *callRecord {
	k := &callRecord{record: newRecord(), profile: env.ProfileID, typ: env.MsgType, began: now, sent: frame.HeaderSize + env.Size(), ctx: ctx}
	k.record.asked(env)
	return k
}

// report describes the exchange so far.
func (k *callRecord) report(s *Session, id []byte) CallReport {
	r := CallReport{
		Session: s, ProfileID: k.profile, MsgType: k.typ, MsgID: id, Digests: k.record.sums(),
		Began: k.began, Took: max(0, s.opts.Now().Sub(k.began)), Sent: k.sent, Received: k.received, Context: k.ctx,
	}
	if p, ok := s.opts.Registry.Lookup(k.profile); ok {
		t, _ := p.Type(k.typ)
		r.Profile, r.Type = p.Name, t.Name
	}
	return r
}

// records returns the record of a message that opens an exchange and is about to be sent;
// nil if the Recorder does not want it, or if the receiver takes it for no exchange, see
// profiles.Profile.Opens.
func (s *Session) records(ctx context.Context, env *e1.Envelope) *callRecord {
	watch := s.ep.asked
	if watch == nil {
		return nil
	}
	if p, ok := s.opts.Registry.Lookup(env.ProfileID); ok && !p.Opens(env) || !watch.Records(s, env) {
		return nil
	}
	return newCallRecord(ctx, env, s.opts.Now())
}

// opens reports whether a message that Send sends opens an exchange. given says that it has
// the msg_id of another message, which it answers if its type is one of answers.
func (s *Session) opens(env *e1.Envelope, given bool) bool {
	p, ok := s.opts.Registry.Lookup(env.ProfileID)
	if !ok {
		return false
	}
	t, _ := p.Type(env.MsgType)
	return p.Opens(env) && !(given && t.Role&profiles.Answer != 0)
}

// alongside records a message that a Responder has sent under another msg_id than the one of its request.
func (s *Session) alongside(ctx context.Context, env *e1.Envelope, request []byte) {
	if s.ep.asked == nil || bytes.Equal(env.MsgID, request) {
		return
	}
	message := *env // so that answers need no memory
	if !s.opens(&message, false) {
		return
	}
	if k := s.records(ctx, &message); k != nil {
		s.ep.asked.RecordCall(k.report(s, message.MsgID))
		k.record.free()
	}
}

// forget gives the record back of a call that has ended, or was not sent.
func (c *call) forget() {
	if c.kept != nil {
		c.kept.record.free()
		c.kept = nil
	}
}

// received adds the answer that Recv is about to return. last says that it ends the call.
func (c *call) received(last bool) {
	c.kept.received += frame.HeaderSize + c.env.Size()
	c.kept.record.answered(&c.env)
	if last {
		c.record(true)
		return
	}
	if p, ok := c.s.opts.Registry.Lookup(c.prof); ok {
		t, _ := p.Type(c.env.MsgType)
		c.kept.whole = c.kept.whole || t.Role&profiles.Lone != 0
	}
}

// Completed implements profiles.Completed.
func (c *call) Completed() {
	if c.kept != nil {
		c.kept.whole = true
	}
}

// record reports the call to the Recorder.
func (c *call) record(complete bool) {
	s, k := c.s, c.kept
	var fault error
	if complete = complete || k.whole; !complete {
		c.mu.Lock()
		fault = c.err
		if c.fault != nil {
			k.record.answered(&e1.Envelope{MsgType: ErrorMsgType, Payload: c.fault})
			complete = true
		}
		c.mu.Unlock()
	}
	r := k.report(s, c.id[:])
	r.Complete, r.Fault = complete, fault
	c.forget()
	s.ep.asked.RecordCall(r)
}
