package crash

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/slimwire/swp/profiles/relay"
)

// maxAttempts is how often the relay attempts a delivery. It is so many that kills
// do not use them up.
const maxAttempts = 20

// figures are what a history comes to.
type figures struct {
	published, acknowledged int // deliveries, by their id
	delivered               int // attempts that a consumer saw
	again                   map[string]int
	dead                    map[relay.Reason]int

	work   map[string]int // acknowledged, seen or begun, by kind
	failed map[string]int // by kind and cause
	looks  int            // at artifacts
}

func newFigures() figures {
	return figures{again: make(map[string]int), dead: make(map[relay.Reason]int), work: make(map[string]int), failed: make(map[string]int)}
}

func (f figures) String() string {
	var parts []string
	if f.published > 0 {
		parts = append(parts, fmt.Sprintf("%d deliveries published, %d of them acknowledged; seen %d times by consumers, again for %s; dead for %s",
			f.published, f.acknowledged, f.delivered, counts(f.again), counts(f.dead)))
	}
	if len(f.work) > 0 {
		parts = append(parts, fmt.Sprintf("%s; artifacts got %d times; failed %s", counts(f.work), f.looks, counts(f.failed)))
	}
	return strings.Join(parts, "; ")
}

func counts[K cmp.Ordered](of map[K]int) string {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(of)) {
		words = append(words, fmt.Sprintf("%v: %d", k, of[k]))
	}
	return "{" + strings.Join(words, ", ") + "}"
}

// patience bounds the search for an order of what has happened to one delivery.
const patience = 5 * time.Minute

// judge holds a history that has come to its end against the contract, and tells
// what is wrong.
func (h *history) judge(wrong func(format string, args ...any)) figures {
	f := newFigures()
	h.judgeWorks(&f, wrong)
	for _, fault := range h.faults {
		wrong("%s", fault)
	}
	for _, c := range h.conns {
		if !h.explained(c) {
			wrong("%s lost a connection while swpd ran: %s", c.who, c.why)
		}
	}
	for id, dead := range h.dead {
		f.dead[dead.Reason]++
		if h.deliveries[id] == nil {
			wrong("%s is dead and was never published", id)
		}
	}
	for id, d := range h.deliveries {
		f.published++
		if d.custody {
			f.acknowledged++
		}
		f.delivered += len(d.attempts)
		h.judgeEnd(id, d, wrong)
		h.judgeAttempts(id, d, f.again, wrong)
		ops := d.operations()
		if result := porcupine.CheckOperationsTimeout(relayModel, ops, patience); result != porcupine.Ok {
			wrong("%s: %s: there is no order in which this can have happened: %s", id, result, described(relayModel, ops))
		}
	}
	return f
}

// judgeEnd wants a delivery to be processed, or dead for a reason.
func (h *history) judgeEnd(id string, d *told, wrong func(string, ...any)) {
	dead, listed := h.dead[id]
	switch relay.State(d.stands) {
	case relay.Acked:
		if !slices.ContainsFunc(d.attempts, func(a *attempt) bool { return a.answer == didAck }) {
			wrong("%s stands as acked, and no consumer has acknowledged it", id)
		}
	case relay.DeadState:
		if !listed {
			wrong("%s stands as dead and is not in %s", id, relay.MethodDead)
		}
	case answerNone:
		if d.custody {
			wrong("%s was acknowledged and is lost", id)
		}
	case "":
		wrong("nobody knows how %s stands", id)
	default:
		wrong("%s stands as %s in the end", id, d.stands)
	}
	switch {
	case listed && d.stands != string(relay.DeadState):
		wrong("%s is in %s and stands as %s", id, relay.MethodDead, d.stands)
	case listed:
		h.judgeDeath(id, d, dead, wrong)
	case len(d.noticed) > 0:
		wrong("%s was said to be dead and is not", id)
	}
}

// judgeDeath wants a delivery to be dead for the reason that its plan has.
func (h *history) judgeDeath(id string, d *told, dead grave, wrong func(string, ...any)) {
	reason := map[byte]relay.Reason{refusing: relay.Rejected, poison: relay.MaxAttempts, brief: relay.TTLExpired}[plan(id)]
	refused := slices.ContainsFunc(d.attempts, func(a *attempt) bool { return a.answer == didReject })
	switch {
	case dead.Reason != reason:
		wrong("%s is dead for %q, want %q", id, dead.Reason, reason)
	case reason == relay.Rejected && !refused:
		wrong("%s is dead for %q, and no consumer has refused it", id, reason)
	case reason == relay.MaxAttempts && (dead.Attempts != maxAttempts || h.charged(d) > maxAttempts):
		wrong("%s is dead after %d attempts of which consumers saw %d and %d have to count, want %d", id, dead.Attempts, len(d.attempts), h.charged(d), maxAttempts)
	case reason == relay.TTLExpired && !dead.far && dead.Died < dead.Taken+shortLife.Milliseconds():
		wrong("%s is dead after %d ms", id, dead.Died-dead.Taken)
	}
	if topic := (parcel{id: id}).topic(); dead.Topic != topic {
		wrong("%s is dead in topic %s, want %s", id, dead.Topic, topic)
	}
	if dead.far {
		return // nobody is told, see docs/partners.md
	}
	// Who asks while the notice is on its way is told by the answer.
	asked := h.asking > 0 && dead.Died >= h.asking
	if !dead.Told {
		wrong("the publisher of %s was never told of its death", id)
	} else if !asked && !slices.Contains(d.noticed, string(reason)) {
		wrong("the publisher of %s was told %q of its death, want %q", id, d.noticed, reason)
	}
}

// charged returns how many of the attempts that consumers saw count for certain. One that ended
// with its consumer, its connection or swpd may have been charged to another delivery that the
// consumer held.
func (h *history) charged(d *told) int {
	d.sort()
	n := len(d.attempts)
	for i := 1; i < len(d.attempts); i++ {
		before := *d.attempts[i-1]
		if before.answer == didNack {
			before.answer = didAck // the answer may have been lost with what carried it
		}
		if h.cause(&before, d.attempts[i]) != "" {
			n--
		}
	}
	return n
}

// judgeAttempts wants what consumers got to be what was published, and to come
// again only for a cause.
func (h *history) judgeAttempts(id string, d *told, again map[string]int, wrong func(string, ...any)) {
	d.sort()
	for i, a := range d.attempts {
		switch topic, published := d.payloads[a.payload]; {
		case len(d.payloads) == 0:
			wrong("%s was never published, and %s got it", id, a.conn.who)
		case !published || topic != a.topic:
			wrong("%s was altered: %s got payload %s in topic %s, published were %v", id, a.conn.who, a.payload, a.topic, d.payloads)
		}
		if i == 0 {
			continue
		}
		before := d.attempts[i-1]
		cause := h.cause(before, a)
		if cause == "" {
			wrong("%s came twice without a cause: to %s at %d, which said %q after %v, and %v after that got it to %s; %s",
				id, before.conn.who, before.at, before.answer, time.Duration(before.answered-before.at), time.Duration(a.at-before.at), a.conn.who, h.around(before.at))
			continue
		}
		again[cause]++
	}
}

// around names the last fault that had ended at a moment, and the next one.
func (h *history) around(at int64) string {
	last, next := int64(0), int64(forever)
	for _, l := range h.relays {
		if l.killed.to > 0 && l.killed.to <= at {
			last = max(last, l.killed.to)
		}
		if l.killed.from >= at {
			next = min(next, l.killed.from)
		}
	}
	return fmt.Sprintf("the last fault ended %v before, and the next one began %v later", time.Duration(at-last), time.Duration(next-at))
}

func described(model porcupine.Model, ops []porcupine.Operation) string {
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var text strings.Builder
	for _, op := range ops {
		_, _ = fmt.Fprintf(&text, "\n\t%d to %d: %s", op.Call, op.Return, model.DescribeOperation(op.Input, op.Output))
	}
	return text.String()
}
