package crash

import (
	"cmp"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/slimwire/swp/profiles/relay"
)

// span is a time of clock.
type span struct{ from, to int64 }

func (s span) meets(other span) bool { return s.from <= other.to && other.from <= s.to }

// history is all that is known from outside.
type history struct {
	works

	deliveries map[string]*told
	conns      []*connection
	faults     []string // that a process has noticed

	relays   []life          // of the swpd that consumers are connected to, one after the other
	troubles []span          // of every swpd, and of the link between two
	kills    map[string]span // of processes, by the name of their journal
	dead     map[string]grave
	asking   int64 // since when somebody asks again and again how each stands, as Dead has times
	calm     int64 // since when nothing was killed but what was done
}

// grave is what the list of the dead says of a delivery.
type grave struct {
	relay.Dead
	far bool // it died at a partner, which does not know its publisher
}

// life is the time of a process: it is killed between killed.from and killed.to.
type life struct {
	from   int64
	killed span // zero: it was not
	stalls bool // it was only cut off from its clients: what was sent then may arrive up to ackTimeout later
}

// told is what is known of one delivery.
type told struct {
	payloads map[string]string     // that were published; the topic by the digest
	ops      []porcupine.Operation // with an answer
	since    map[asked]int64       // what may have happened, from when on
	attempts []*attempt
	custody  bool   // the relay has said that it has it
	stands   string // the last answer to an ask, and when
	asked    int64
	noticed  []string
}

// connection is one of a consumer.
type connection struct {
	who   string
	made  span  // while this it was made
	ended int64 // 0: with the process
	lost  bool  // not by the consumer
	why   string
}

// attempt is a delivery as a consumer got it.
type attempt struct {
	at       int64
	conn     *connection
	topic    string
	payload  string
	answer   string // empty: there is none
	answered int64
}

func newHistory() *history {
	return &history{works: newWorks(), deliveries: make(map[string]*told), kills: make(map[string]span), dead: make(map[string]grave)}
}

func (h *history) of(id string) *told {
	d := h.deliveries[id]
	if d == nil {
		d = &told{payloads: make(map[string]string), since: make(map[asked]int64)}
		h.deliveries[id] = d
	}
	return d
}

// readAll reads every journal in a directory.
func readAll(dir string) (*history, error) {
	h := newHistory()
	names, err := journals(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		r := h.reader(name)
		if err := readJournal(dir, name, r.read); err != nil {
			return nil, err
		}
		r.end()
	}
	h.sort()
	return h, nil
}

// reader takes in the journal of one process.
type reader struct {
	h        *history
	who      string
	open     map[uint64]entry // that have no answer yet
	conns    map[uint64]*connection
	attempts map[uint64]*attempt

	runs          map[uint64]*run
	subscriptions map[uint64]*subscription
}

func (h *history) reader(who string) *reader {
	return &reader{
		h, who, make(map[uint64]entry), make(map[uint64]*connection), make(map[uint64]*attempt),
		make(map[uint64]*run), make(map[uint64]*subscription),
	}
}

func (r *reader) read(e *entry) {
	h := r.h
	switch {
	case e.Again: // it was read where it was written first
		return
	case e.Kind != "":
		r.working(e)
		return
	}
	switch e.What {
	case didPublish:
		h.of(e.ID).payloads[e.Payload] = e.Topic
		if plan(e.ID) == brief {
			h.of(e.ID).may(asked{what: died}, e.At+int64(e.TTL))
		}
		r.open[e.Op] = *e
	case hadAnswer:
		if began, ok := r.open[e.Op]; ok {
			delete(r.open, e.Op)
			d := h.of(e.ID)
			d.add(asked{didPublish, began.Payload}, e.Text, span{began.At, e.At})
			d.custody = d.custody || e.Text == answerFresh || e.Text == answerTwice
		}
	case didAsk:
		d := h.of(e.ID)
		d.add(asked{what: didAsk}, e.Text, span{e.Since, e.At})
		if e.At > d.asked {
			d.stands, d.asked = e.Text, e.At
		}
	case didAskAll:
		h.asking = e.Since
	case hadNotice:
		h.of(e.ID).noticed = append(h.of(e.ID).noticed, e.Text)
	case sawFault:
		h.faults = append(h.faults, r.who+": "+e.ID+": "+e.Text)
	case didConnect:
		c := &connection{who: r.who, made: span{e.Since, e.At}}
		r.conns[e.Op] = c
		h.conns = append(h.conns, c)
	case didDrop:
		r.conns[e.Op].ended = e.At
	case wasDropped:
		if c := r.conns[e.Op]; c.ended == 0 {
			c.ended, c.lost, c.why = e.At, true, e.Text
		}
	case didGet:
		r.got(e)
	case didAck, didNack, didReject, didIgnore:
		r.processed(e)
	}
}

// end takes in what has no answer: it may have happened.
func (r *reader) end() {
	for _, e := range r.open {
		r.h.of(e.ID).may(asked{didPublish, e.Payload}, e.At)
	}
}

func (d *told) add(do asked, answer string, when span) {
	d.ops = append(d.ops, porcupine.Operation{Input: do, Output: answer, Call: when.from, Return: when.to})
}

// may adds what can happen from a time on. That it happens again says nothing new.
func (d *told) may(do asked, from int64) {
	if at, ok := d.since[do]; !ok || from < at {
		d.since[do] = from
	}
}

// sort puts the attempts in the order in which they were seen.
func (d *told) sort() {
	slices.SortFunc(d.attempts, func(a, b *attempt) int { return cmp.Compare(a.at, b.at) })
}

// operations returns what has happened, as the model wants it. The relay has made
// an attempt at some time between the begin of the connection and when a consumer
// got it. A time that holds another says nothing new.
func (d *told) operations() []porcupine.Operation {
	d.sort()
	ops := slices.Clone(d.ops)
	for do, from := range d.since {
		ops = append(ops, porcupine.Operation{Input: do, Output: "", Call: from, Return: forever})
	}
	latest := make(map[string]int64) // begin of those that are taken, by payload
	for _, a := range d.attempts {
		if from := a.conn.made.from; from > latest[a.payload] {
			latest[a.payload] = from
			ops = append(ops, porcupine.Operation{Input: asked{didGet, a.payload}, Output: "", Call: from, Return: a.at})
		}
	}
	return ops
}

// got adds an attempt.
func (r *reader) got(e *entry) {
	a := &attempt{at: e.At, conn: r.conns[e.Conn], topic: e.Topic, payload: e.Payload}
	r.attempts[e.Op] = a
	d := r.h.of(e.ID)
	d.attempts = append(d.attempts, a)
}

func (r *reader) processed(e *entry) {
	a := r.attempts[e.Op]
	a.answer, a.answered = e.What, e.At
	switch {
	case e.What == didAck:
		r.h.of(e.ID).may(asked{what: didAck}, e.At)
	case e.What == didReject, e.What == didNack && plan(e.ID) == poison:
		r.h.of(e.ID).may(asked{what: died}, e.At)
	}
}

// livesOf returns the numbers of those lives of the relay in which a connection
// may have been made: mostly one.
func (h *history) livesOf(c *connection) (numbers []int) {
	for i, l := range h.relays {
		end := l.killed.to
		if end == 0 {
			end = forever
		}
		if c.made.meets(span{l.from, end}) {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// The causes of another attempt that the contract knows.
const (
	byNack     = "nack"
	bySilence  = "ack timeout"
	byLoss     = "connection lost"
	byConsumer = "consumer killed"
	byRelay    = "swpd killed"
)

// ackTimeout is how long the relay waits for a consumer.
const ackTimeout = 5 * time.Second

// commitTime is how long the relay may take to store an answer that it has: what
// happens later is no reason to make the delivery again.
const commitTime = 2 * time.Second

// cause says why the attempt b came after a, by what was first; empty: for no
// reason.
func (h *history) cause(a, b *attempt) (why string) {
	if a.answer == didNack && a.answered <= b.at {
		return byNack
	}
	first := int64(forever)
	blame := func(cause string, at int64) {
		if at < first && (a.answer != didAck || at-a.answered <= int64(commitTime)) {
			why, first = cause, at
		}
	}
	if killed, ok := h.kills[a.conn.who]; ok && killed.meets(span{a.at, b.at}) {
		blame(byConsumer, killed.from)
	}
	if was := h.livesOf(a.conn); len(was) != 1 || !slices.Equal(was, h.livesOf(b.conn)) {
		blame(byRelay, h.relays[was[len(was)-1]].killed.from)
	}
	for _, l := range h.relays { // a connection outlives the time without a database, and a cut link
		away := l.killed
		if l.stalls {
			away.to += int64(ackTimeout)
		}
		if l.killed.to > 0 && away.meets(span{a.at, b.at}) {
			blame(byRelay, away.from)
		}
	}
	if a.conn.ended > 0 && a.conn.ended <= b.at {
		blame(byLoss, a.conn.ended)
	}
	late := a.answer == "" || a.answer == didIgnore || a.answered-a.at >= int64(ackTimeout)/2
	if why == "" && late && b.at-a.at >= int64(ackTimeout)/2 {
		return bySilence
	}
	return why
}

// explained reports whether a connection was lost with the relay.
func (h *history) explained(c *connection) bool {
	for _, i := range h.livesOf(c) {
		if killed := h.relays[i].killed; killed.to > 0 && killed.from <= c.ended {
			return true
		}
	}
	return !c.lost
}
