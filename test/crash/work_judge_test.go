package crash

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slimwire/swp/profiles/state"
)

// unheard is how long the end of a connection may stay unheard: what goes wrong within that
// time of a cut or a kill may go wrong because of it.
const unheard = 3 * time.Minute

// judgeWorks holds everything but deliveries against the contract.
func (h *history) judgeWorks(f *figures, wrong func(string, ...any)) {
	for _, s := range h.subscribers {
		f.work[s.kind] += h.judgeSubscriber(s, wrong, wrong)
	}
	for _, n := range h.numbered {
		f.work[n.kind] += int(n.acked)
		h.judgeNumbered(n, wrong)
	}
	for _, w := range h.works.works {
		f.work[w.kind]++
		switch w.kind {
		case aTask:
			h.judgeTask(w, f, wrong)
		case aCall, aToolCall:
			h.judgeCall(w, f, wrong)
		case anArtifact:
			h.judgeArtifact(w, f, wrong)
		}
	}
}

// judgeSubscriber wants the events of each producer in order, each once, and as they were
// published. A durable subscriber gets all of them; another one all that follow the cursor of
// its confirmation, which may be before what it got from an earlier subscription: it shares
// one at the partner. What is missing at the end may be on its way, so lost is told of it. It
// returns how many events there were.
func (h *history) judgeSubscriber(s *subscriber, wrong, lost func(string, ...any)) (count int) {
	last, end := make(map[string]uint64), uint64(0)
	for i, sub := range s.subscriptions {
		here := make(map[string]uint64)
		again := s.kind == aListener && sub.start < end
		end = max(end, sub.end)
		for _, e := range sub.seen {
			count++
			producer, text, _ := strings.Cut(e.id, "/")
			n, err := strconv.ParseUint(text, 10, 64)
			made := h.numbered[anEvent+" "+producer]
			if err != nil || made == nil || n > made.most() {
				wrong("%s %s: event %s was never published", s.kind, sub.who, e.id)
				continue
			}
			if want := digestOf(numbered(producer, n)); e.digest != want {
				wrong("%s %s: event %s was altered", s.kind, sub.who, e.id)
			}
			before, follows := last[producer], s.kind == aSubscription
			if !follows {
				_, follows = here[producer]
			}
			if again {
				before = here[producer]
			}
			if n <= before {
				wrong("%s %s: event %s came after event %d: twice, or out of order", s.kind, sub.who, e.id, before)
			} else if follows && n != before+1 {
				wrong("%s %s: event %s came after event %d: some are missing", s.kind, sub.who, e.id, before)
			}
			last[producer], here[producer] = max(n, last[producer]), n
		}
		if s.kind == aListener && i == len(s.subscriptions)-1 && h.stayed(sub) {
			h.judgeEndOfListener(s, sub, here, lost)
		}
	}
	for _, made := range h.numbered {
		if s.kind == aSubscription && made.kind == anEvent && last[made.id] < made.acked {
			lost("%s %s has event %d of %s, and %d were acknowledged", s.kind, s.id, last[made.id], made.id, made.acked)
		}
	}
	return count
}

// stayed reports whether a subscription was there when everything was acknowledged.
func (h *history) stayed(sub *subscription) bool {
	killed, ok := h.kills[sub.who]
	return sub.dropped == 0 && (!ok || killed.from > h.calm)
}

// judgeEndOfListener wants a listener that was there until the end to have all that was
// published after it came.
func (h *history) judgeEndOfListener(s *subscriber, sub *subscription, here map[string]uint64, lost func(string, ...any)) {
	for _, made := range h.numbered {
		before := uint64(0)
		for _, m := range made.begun {
			if m.at <= sub.at {
				before = max(before, m.n)
			}
		}
		if made.kind == anEvent && made.acked > before && here[made.id] < made.acked {
			lost("%s %s has event %d of %s, and %d were acknowledged", s.kind, sub.who, here[made.id], made.id, made.acked)
		}
	}
}

// most is the highest number that may be there.
func (n *numbering) most() uint64 {
	most := n.acked
	for _, m := range n.begun {
		most = max(most, m.n)
	}
	return most
}

// judgeNumbered wants what was acknowledged to be there when somebody looks, and no state
// without its parent.
func (h *history) judgeNumbered(n *numbering, wrong func(string, ...any)) {
	missing := uint64(0)
	for i := uint64(1); i <= n.most() && n.kind != anEvent; i++ {
		name := numberedName(n.id, i)
		for _, l := range h.looks[n.kind+" "+name] {
			switch {
			case l.text == endNone && i <= n.acked:
				wrong("%s %s was acknowledged and is lost", n.kind, name)
			case l.text == endNone:
				missing = cmp.Or(missing, i)
			case l.text != endOK:
				wrong("%s %s: %s", n.kind, name, l.text)
			case l.payload != n.digest(i):
				wrong("%s %s came back as another", n.kind, name)
			case missing > 0 && n.kind == aState:
				wrong("%s %s is there without its parent, %d", n.kind, name, missing)
			}
		}
	}
}

func numberedName(series string, n uint64) string { return string(eventID(series, n)) }

// digest is that of a state or of its delta.
func (n *numbering) digest(i uint64) string {
	s := grown(n.id, i)
	if n.kind == aDelta {
		return digestOfChange(&state.Change{Delta: changeOf(n.id, i), Parents: s.Parents})
	}
	return digestOfState(&s)
}

// judgeTask wants one Result, however often it is asked for, and the Events before it in
// order, each once. A task is not carried out twice, and fails only for a cause.
func (h *history) judgeTask(w *work, f *figures, wrong func(string, ...any)) {
	if len(w.begun) == 0 {
		wrong("task %s was never sent, and %s has carried it out", w.id, w.runs[0].who)
		return
	}
	if len(w.ended) == 0 {
		wrong("task %s has no Result", w.id)
		return
	}
	last, said := uint64(0), 0
	for _, e := range w.reached {
		if e.seq != last+1 || e.firstHeld != 0 {
			wrong("task %s: Event %d after %d (first held %d)", w.id, e.seq, last, e.firstHeld)
		}
		last = e.seq
		if e.text == "" {
			continue // accepted
		}
		n, err := strconv.Atoi(e.text)
		if err != nil || n != said+1 {
			wrong("task %s: the executor said %q after %d", w.id, e.text, said)
		}
		said = n
	}
	end := w.ended[0]
	if end.seq != last {
		wrong("task %s: the last Event was %d, and the Result says %d", w.id, last, end.seq)
	}
	for _, other := range w.ended[1:] {
		if other.text != end.text || other.payload != end.payload || other.seq != end.seq {
			wrong("task %s ended with %q %s, and later with %q %s", w.id, end.text, end.payload, other.text, other.payload)
		}
	}
	h.judgeRuns(w, wrong)
	if end.text != endOK {
		cause := h.failure(w, &end)
		if cause == "" {
			wrong("task %s ended without a cause with %q", w.id, end.text)
		}
		f.failed[w.kind+", "+cause]++
		return
	}
	if end.payload != digest(outputOf(w.id)) || said != steps {
		wrong("task %s ended with another output, or after %d Events of its executor", w.id, said)
	}
	if !slices.ContainsFunc(w.runs, func(r *run) bool { return r.finished > 0 }) {
		wrong("task %s is done, and nobody has carried it out", w.id)
	}
}

// The causes for which something fails.
const (
	byExecutor = "its executor was killed"
	byPartner  = "the partner could not be reached"
	byTrouble  = "swpd was killed or the link cut"
)

// failure says why a task may have failed; empty: for no cause.
func (h *history) failure(w *work, end *outcome) string {
	switch {
	case strings.Contains(end.text, "worker was restarted") && h.executorDied(w, end):
		return byExecutor
	case strings.Contains(end.text, "cannot be reached") && len(w.runs) == 0 && h.troubled(w, end):
		return byPartner
	}
	return ""
}

// executorDied reports whether an executor was killed before a task had ended, and the next one
// came after it had begun: until then the swpd may have given the task to the dead one.
func (h *history) executorDied(w *work, end *outcome) bool {
	for who, killed := range h.kills {
		if !strings.HasPrefix(who, roleExecutor) || killed.from > end.at {
			continue
		}
		next := int64(forever)
		for _, at := range h.declared {
			if at > killed.from {
				next = min(next, at)
			}
		}
		if next >= w.begun[0].at {
			return true
		}
	}
	return false
}

// troubled reports whether a swpd was killed, or the link cut, before something had ended,
// so shortly before it began that it was not yet known then.
func (h *history) troubled(w *work, end *outcome) bool {
	return slices.ContainsFunc(h.troubles, func(t span) bool {
		return t.from <= end.at && t.to+int64(unheard) >= w.begun[0].at
	})
}

// judgeRuns wants something to be carried out once, unless who did it was killed.
func (h *history) judgeRuns(w *work, wrong func(string, ...any)) {
	for i, r := range w.runs {
		if i == 0 {
			continue
		}
		before := w.runs[i-1]
		if killed, ok := h.kills[before.who]; !ok || before.finished > 0 || killed.from > r.at {
			wrong("%s %s was carried out %d times: by %s, and again by %s", w.kind, w.id, len(w.runs), before.who, r.who)
		}
	}
}

// judgeCall wants a call to run once at most, to return what it returned when it ran, and
// to end the same each time. It fails only for a cause.
func (h *history) judgeCall(w *work, f *figures, wrong func(string, ...any)) {
	if len(w.begun) == 0 {
		wrong("%s %s was never made, and %s has run it", w.kind, w.id, w.runs[0].who)
		return
	}
	h.judgeRuns(w, wrong)
	if len(w.ended) == 0 {
		if w.kind == aCall {
			wrong("call %s has no outcome", w.id)
		}
		return
	}
	end := w.ended[0]
	for _, other := range w.ended[1:] {
		if other.text != end.text || other.payload != end.payload {
			wrong("%s %s ended with %q, and later with %q", w.kind, w.id, end.text, other.text)
		}
	}
	want := resultOf(w.id, 1)
	if w.kind == aToolCall {
		want = toolResult(w.id)
	}
	switch {
	case end.text == endOK && len(w.runs) == 0:
		wrong("%s %s has returned, and nobody has run it", w.kind, w.id)
	case end.text == endOK && end.payload != digest([]byte(want)):
		wrong("%s %s returned something else", w.kind, w.id)
	case end.text == endOK:
	case strings.Contains(end.text, `"retryable":true`) && len(w.runs) > 0:
		wrong("%s %s was run and may be repeated: %s", w.kind, w.id, end.text)
	case !h.troubled(w, &end):
		wrong("%s %s ended without a cause with %q", w.kind, w.id, end.text)
	default:
		f.failed[w.kind+", "+byTrouble]++
	}
}

// judgeArtifact wants an artifact that was acknowledged to be there from then on, with the
// octets that were uploaded.
func (h *history) judgeArtifact(w *work, f *figures, wrong func(string, ...any)) {
	looks := h.looks[w.kind+" "+w.id]
	if len(w.begun) == 0 {
		wrong("artifact %s was never uploaded, and %s has seen it", w.id, looks[0].who)
		return
	}
	for _, l := range looks {
		f.looks++
		switch {
		case l.text == endNone && len(w.ended) > 0 && w.ended[0].at < l.span.from:
			wrong("artifact %s was acknowledged and is lost: %s did not get it", w.id, l.who)
		case l.text == endOK && l.payload != w.begun[0].payload:
			wrong("artifact %s has another digest: %s got %s, uploaded was %s", w.id, l.who, l.payload, w.begun[0].payload)
		}
	}
	if len(w.ended) > 0 && !slices.ContainsFunc(looks, func(l look) bool { return l.text == endOK }) {
		wrong("nobody has looked whether artifact %s is there", w.id)
	}
}

// idle returns the kinds of work of which nothing has come to an end yet.
func (h *history) idle() []string {
	kinds := []string{anEvent, aState, anArtifact, aSubscription, aListener, aTask, aCall, aToolCall}
	return slices.DeleteFunc(kinds, func(kind string) bool {
		for _, n := range h.numbered {
			if n.kind == kind && n.acked > 0 {
				return true
			}
		}
		for _, w := range h.works.works {
			if w.kind == kind && len(w.ended) > 0 {
				return true
			}
		}
		for _, s := range h.subscribers {
			if s.kind == kind && len(s.subscriptions) > 0 {
				return true
			}
		}
		return false
	})
}

// behind returns what subscribers do not have yet that was acknowledged.
func (h *history) behind() (list []string) {
	for _, s := range h.subscribers {
		h.judgeSubscriber(s, func(string, ...any) {}, func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) })
	}
	return list
}
