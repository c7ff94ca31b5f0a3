package crash

import (
	"cmp"
	"slices"
)

// works is what is known of everything but deliveries.
type works struct {
	numbered    map[string]*numbering // events, states and deltas, by kind and series
	subscribers map[string]*subscriber
	works       map[string]*work // by kind and ID
	looks       map[string][]look
	declared    []int64 // when executors were there
}

func newWorks() works {
	return works{
		numbered: make(map[string]*numbering), subscribers: make(map[string]*subscriber),
		works: make(map[string]*work), looks: make(map[string][]look),
	}
}

// numbering is what one series has made, numbered from 1.
type numbering struct {
	kind, id string
	begun    []mark // up to which number, and when
	acked    uint64
}

// mark is a number and when it was there.
type mark struct {
	n  uint64
	at int64
}

// subscriber is a series that subscribes, with its subscriptions in their order.
type subscriber struct {
	kind, id      string
	subscriptions []*subscription
}

// subscription is one, with what came, in order. A durable subscriber goes on after the last
// cursor that it wrote down, so that what it wrote after that does not count.
type subscription struct {
	who     string
	at      int64  // since when it is confirmed
	start   uint64 // cursor of the confirmation: it gets what follows
	end     uint64 // last cursor
	seen    []seen
	open    []seen // after the last cursor
	dropped int64  // 0: with the process
}

type seen struct{ id, digest string }

// work is a task, a call or an artifact.
type work struct {
	kind, id string
	begun    []outcome
	reached  []reached // Events of a task
	ended    []outcome
	runs     []*run
}

// outcome is an entry of who works on it.
type outcome struct {
	who           string
	at            int64
	text, payload string
	seq           uint64
}

// reached is an Event of a task as its initiator got it.
type reached struct {
	at        int64
	seq       uint64
	firstHeld int64
	text      string
}

// run is one of an executor.
type run struct {
	who          string
	at, finished int64 // 0: it has not
}

// look is one of somebody who looks for something.
type look struct {
	who           string
	span          span
	text, payload string
}

func (h *works) number(kind, id string) *numbering {
	n := h.numbered[kind+" "+id]
	if n == nil {
		n = &numbering{kind: kind, id: id}
		h.numbered[kind+" "+id] = n
	}
	return n
}

func (h *works) work(kind, id string) *work {
	w := h.works[kind+" "+id]
	if w == nil {
		w = &work{kind: kind, id: id}
		h.works[kind+" "+id] = w
	}
	return w
}

func (h *works) subscriber(kind, id string) *subscriber {
	s := h.subscribers[kind+" "+id]
	if s == nil {
		s = &subscriber{kind: kind, id: id}
		h.subscribers[kind+" "+id] = s
	}
	return s
}

// working takes in an entry about work that has a kind.
func (r *reader) working(e *entry) {
	h := &r.h.works
	o := outcome{who: r.who, at: e.At, text: e.Text, payload: e.Payload, seq: e.Seq}
	switch e.Kind {
	case anEvent, aState, aDelta:
		n := h.number(e.Kind, e.ID)
		switch e.What {
		case didBegin:
			n.begun = append(n.begun, mark{e.Seq, e.At})
			return
		case didReach:
			n.acked = max(n.acked, e.Seq)
			return
		}
	case aSubscription, aListener:
		r.subscribing(e)
		return
	case anExecutor:
		h.declared = append(h.declared, e.At)
		return
	}
	switch w := h.work(e.Kind, e.ID); e.What {
	case didBegin:
		w.begun = append(w.begun, o)
	case didReach:
		w.reached = append(w.reached, reached{e.At, e.Seq, e.Since, e.Text})
	case didEnd:
		w.ended = append(w.ended, o)
	case didLook:
		h.looks[e.Kind+" "+e.ID] = append(h.looks[e.Kind+" "+e.ID], look{r.who, span{e.Since, e.At}, e.Text, e.Payload})
	case didRun:
		run := &run{who: r.who, at: e.At}
		r.runs[e.Op] = run
		w.runs = append(w.runs, run)
	case didFinish:
		r.runs[e.Op].finished = e.At
	}
}

func (r *reader) subscribing(e *entry) {
	if e.What == didBegin {
		s := &subscription{who: r.who, at: e.At, start: e.Seq}
		r.subscriptions[e.Op] = s
		of := r.h.subscriber(e.Kind, e.ID)
		of.subscriptions = append(of.subscriptions, s)
		return
	}
	switch s := r.subscriptions[e.Op]; e.What {
	case didSee:
		s.open = append(s.open, seen{e.ID, e.Payload})
	case didReach:
		s.seen, s.open = append(s.seen, s.open...), nil
		s.end = e.Seq
	case wasDropped:
		s.dropped = e.At
	}
}

// begun returns all work of a kind that somebody has begun.
func (h *works) begun(kind string) (list []*work) {
	for _, w := range h.works {
		if w.kind == kind && len(w.begun) > 0 {
			list = append(list, w)
		}
	}
	return list
}

// sort puts what several processes wrote down in the order in which it happened.
func (h *works) sort() {
	for _, s := range h.subscribers {
		slices.SortFunc(s.subscriptions, func(a, b *subscription) int { return cmp.Compare(a.at, b.at) })
	}
	for _, w := range h.works {
		byTime := func(a, b outcome) int { return cmp.Compare(a.at, b.at) }
		slices.SortFunc(w.begun, byTime)
		slices.SortFunc(w.ended, byTime)
		slices.SortFunc(w.runs, func(a, b *run) int { return cmp.Compare(a.at, b.at) })
		slices.SortStableFunc(w.reached, func(a, b reached) int { return cmp.Compare(a.at, b.at) })
	}
}
