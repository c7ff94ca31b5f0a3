package crash

import (
	"fmt"
	"strings"
	"testing"
)

// planted is a set of journals in which everything is right, until a fault is planted.
type planted struct {
	journals map[string][]entry
	known    history
}

// clean is what the processes of two series write of one thing of each kind: an event, a
// state with its delta, an artifact, a task, a call and a tool call. The taker is killed in
// the middle and goes on.
func clean() *planted {
	task, call, tool, file := "caller-0.0.task-0", "caller-0.0.call-0", "caller-0.0.tool-0", "giver-0.0.artifact-0"
	see := func(n uint64) entry {
		return entry{Op: 1, What: didSee, Kind: aSubscription, ID: string(eventID("giver-0", n)), Payload: digestOf(numbered("giver-0", n))}
	}
	hear := func(n uint64) entry {
		e := see(n)
		e.Op, e.Kind = 2, aListener
		return e
	}
	giver := []entry{}
	for n := uint64(1); n <= 4; n++ {
		giver = append(giver,
			entry{What: didBegin, Kind: anEvent, ID: "giver-0", Seq: n},
			entry{What: didReach, Kind: anEvent, ID: "giver-0", Seq: n},
		)
	}
	giver = append(giver,
		entry{What: didBegin, Kind: aState, ID: "giver-0", Seq: 9}, entry{What: didReach, Kind: aState, ID: "giver-0", Seq: 8},
		entry{What: didReach, Kind: aDelta, ID: "giver-0", Seq: 8},
		entry{What: didBegin, Kind: anArtifact, ID: file, Seq: 5, Payload: "a digest"}, entry{What: didEnd, Kind: anArtifact, ID: file, Text: endOK},
	)
	caller := []entry{{What: didBegin, Kind: aTask, ID: task}, {What: didReach, Kind: aTask, ID: task, Seq: 1}}
	for n := range uint64(steps) {
		caller = append(caller, entry{What: didReach, Kind: aTask, ID: task, Seq: n + 2, Text: fmt.Sprint(n + 1)})
	}
	caller = append(caller,
		entry{What: didEnd, Kind: aTask, ID: task, Text: endOK, Seq: steps + 1, Payload: digest(outputOf(task))},
		entry{What: didBegin, Kind: aCall, ID: call}, entry{What: didEnd, Kind: aCall, ID: call, Text: endOK, Payload: digest([]byte(resultOf(call, 1)))},
		entry{What: didBegin, Kind: aToolCall, ID: tool}, entry{What: didEnd, Kind: aToolCall, ID: tool, Text: endOK, Payload: digest([]byte(toolResult(tool)))},
	)
	looks := []entry{{What: didLook, Kind: anArtifact, ID: file, Text: endOK, Payload: "a digest"}}
	for n := uint64(1); n <= 9; n++ {
		s := grown("giver-0", n)
		looks = append(looks, entry{What: didLook, Kind: aState, ID: numberedName("giver-0", n), Text: endOK, Payload: digestOfState(&s)})
	}
	delta := numbering{kind: aDelta, id: "giver-0"}
	looks = append(looks, entry{What: didLook, Kind: aDelta, ID: numberedName("giver-0", 8), Text: endOK, Payload: delta.digest(8)})
	subscribed := entry{Op: 1, What: didBegin, Kind: aSubscription, ID: "taker-0"}
	reached := func(n uint64) entry { return entry{Op: 1, What: didReach, Kind: aSubscription, ID: "taker-0", Seq: n} }
	return &planted{
		journals: map[string][]entry{
			"taker-0.0":    {subscribed, {Op: 2, What: didBegin, Kind: aListener, ID: "taker-0"}, see(1), see(2), reached(2), hear(1), {Op: 2, What: didReach, Kind: aListener, ID: "taker-0", Seq: 1}, see(3)},
			"taker-0.1":    {{Op: 9, What: didReach, Kind: aSubscription, ID: "taker-0", Seq: 2, Again: true}, subscribed, see(3), see(4), reached(4)},
			"giver-0.0":    giver,
			"caller-0.0":   caller,
			"executor-0.0": {{Op: 1, What: didRun, Kind: aTask, ID: task}, {Op: 1, What: didFinish, Kind: aTask, ID: task}},
			"backend":      {{Op: 1, What: didRun, Kind: aCall, ID: call}},
			"tools-1":      {{Op: 1, What: didRun, Kind: aToolCall, ID: tool}},
			inspector:      looks,
		},
		known: history{kills: map[string]span{"taker-0.0": {1, 2}}, calm: 1 << 62},
	}
}

// write writes the journals into a directory. Each entry that names no Op has one of its own.
func (p *planted) write(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"giver-0.0", "taker-0.0", "taker-0.1", "caller-0.0", "executor-0.0", "executor-0.1", "backend", "tools-1", "tools-2", inspector} {
		if len(p.journals[name]) == 0 {
			continue
		}
		j, err := openJournal(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		j.ops.Store(100)
		for _, e := range p.journals[name] {
			if e.Op == 0 {
				e.Op = j.ops.Add(1)
			}
			j.write(e)
		}
	}
	return dir
}

// found returns what the judge finds wrong.
func (p *planted) found(t *testing.T) string {
	t.Helper()
	var list []string
	if _, err := verdict(p.write(t), p.known, func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }); err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, "\n")
}

// at returns the first entry of a journal that fits.
func (p *planted) at(name string, fits func(entry) bool) int {
	for i, e := range p.journals[name] {
		if fits(e) {
			return i
		}
	}
	panic("there is no such entry in " + name)
}

func (p *planted) edit(name string, fits func(entry) bool, edit func(*entry)) {
	edit(&p.journals[name][p.at(name, fits)])
}

func (p *planted) remove(name string, fits func(entry) bool) {
	i := p.at(name, fits)
	p.journals[name] = append(p.journals[name][:i:i], p.journals[name][i+1:]...)
}

func (p *planted) swap(name string, a, b func(entry) bool) {
	i, j := p.at(name, a), p.at(name, b)
	list := p.journals[name]
	list[i], list[j] = list[j], list[i]
}

// hearAgain has the second taker hear what the first one has heard, after a cursor.
func (p *planted) hearAgain(after uint64) {
	seen := p.journals["taker-0.0"][p.at("taker-0.0", func(e entry) bool { return e.Kind == aListener && e.What == didSee })]
	p.add("taker-0.1", entry{Op: 2, What: didBegin, Kind: aListener, ID: "taker-0", Seq: after}, seen,
		entry{Op: 2, What: didReach, Kind: aListener, ID: "taker-0", Seq: 1})
}

func (p *planted) add(name string, e ...entry) { p.journals[name] = append(p.journals[name], e...) }

// The journals of a soak are judged as they should be: nothing is wrong in clean ones, and
// each fault that is planted in them is found.
func TestTheJudgeOfJournalsFindsWhatIsPlanted(t *testing.T) {
	const task, call, tool, file = "caller-0.0.task-0", "caller-0.0.call-0", "caller-0.0.tool-0", "giver-0.0.artifact-0"
	is := func(kind, what string) func(entry) bool {
		return func(e entry) bool { return e.Kind == kind && e.What == what }
	}
	event := func(n uint64) func(entry) bool {
		return func(e entry) bool { return e.Kind == aSubscription && e.ID == string(eventID("giver-0", n)) }
	}
	step := func(text string) func(entry) bool {
		return func(e entry) bool { return e.Kind == aTask && e.What == didReach && e.Text == text }
	}
	ran := func(kind, id string) entry { return entry{Op: 50, What: didRun, Kind: kind, ID: id} }
	for name, test := range map[string]struct {
		plant func(*planted)
		want  string // empty: nothing is wrong
	}{
		"clean": {func(*planted) {}, ""},

		"an event lost in the middle": {func(p *planted) { p.remove("taker-0.0", event(2)) }, "some are missing"},
		"an event lost at the end":    {func(p *planted) { p.remove("taker-0.1", event(4)) }, "has event 3 of giver-0, and 4 were acknowledged"},
		"an event twice": {func(p *planted) {
			p.journals["taker-0.0"] = append([]entry{p.journals["taker-0.0"][0], p.journals["taker-0.0"][2]}, p.journals["taker-0.0"][1:]...)
		}, "twice, or out of order"},
		"an event that was settled again after a restart": {func(p *planted) {
			p.edit("taker-0.1", event(3), func(e *entry) { e.ID, e.Payload = "giver-0/2", digestOf(numbered("giver-0", 2)) })
		}, "event giver-0/2 came after event 2: twice"},
		"events swapped": {func(p *planted) { p.swap("taker-0.0", event(1), event(2)) }, "out of order"},
		"an event altered": {func(p *planted) {
			p.edit("taker-0.0", event(1), func(e *entry) { e.Payload = "another" })
		}, "was altered"},
		"an event invented": {func(p *planted) {
			p.edit("taker-0.1", event(4), func(e *entry) { e.ID = "giver-0/5" })
		}, "was never published"},
		"an event heard twice": {func(p *planted) {
			p.add("taker-0.0", p.journals["taker-0.0"][p.at("taker-0.0", is(aListener, didSee))], entry{Op: 2, What: didReach, Kind: aListener, ID: "taker-0", Seq: 1})
		}, "twice, or out of order"},
		"an event heard again, by a listener that was confirmed behind it": {func(p *planted) { p.hearAgain(1) }, "event giver-0/1 came after event 1: twice"},
		"an event heard again, by a listener that was confirmed before it": {func(p *planted) { p.hearAgain(0) }, ""},
		"a listener that stayed misses something": {func(p *planted) {
			p.known.kills, p.known.calm = nil, 0
			p.journals["taker-0.0"] = append([]entry{}, p.journals["taker-0.0"]...)
			giver := p.journals["giver-0.0"]
			delete(p.journals, "giver-0.0")
			p.add("taker-0.1", entry{Op: 3, What: didBegin, Kind: aListener, ID: "taker-0"})
			p.add(inspector, giver...) // what is written last was published last
		}, "listener taker-0.1 has event 0 of giver-0"},

		"a state lost": {func(p *planted) {
			p.edit(inspector, func(e entry) bool { return e.ID == "giver-0/3" && e.Kind == aState }, func(e *entry) { e.Text, e.Payload = endNone, "" })
		}, "state giver-0/3 was acknowledged and is lost"},
		"a state that was not acknowledged is not there": {func(p *planted) {
			p.edit(inspector, func(e entry) bool { return e.ID == "giver-0/9" }, func(e *entry) { e.Text, e.Payload = endNone, "" })
		}, ""},
		"a state altered": {func(p *planted) {
			p.edit(inspector, is(aState, didLook), func(e *entry) { e.Payload = "another" })
		}, "came back as another"},
		"a state without its parent": {func(p *planted) {
			p.edit("giver-0.0", is(aState, didReach), func(e *entry) { e.Seq = 7 })
			p.edit(inspector, func(e entry) bool { return e.ID == "giver-0/8" && e.Kind == aState }, func(e *entry) { e.Text, e.Payload = endNone, "" })
		}, "is there without its parent"},
		"a delta lost": {func(p *planted) {
			p.edit(inspector, is(aDelta, didLook), func(e *entry) { e.Text, e.Payload = endNone, "" })
		}, "delta giver-0/8 was acknowledged and is lost"},
		"a delta twice": {func(p *planted) {
			p.edit(inspector, is(aDelta, didLook), func(e *entry) { e.Text = "it is there 2 times" })
		}, "it is there 2 times"},

		"an artifact with another digest": {func(p *planted) {
			p.edit(inspector, is(anArtifact, didLook), func(e *entry) { e.Payload = "another" })
		}, "has another digest"},
		"an artifact lost": {func(p *planted) {
			p.edit(inspector, is(anArtifact, didLook), func(e *entry) { e.Text, e.Payload, e.Since = endNone, "", 1<<62 })
		}, "artifact " + file + " was acknowledged and is lost"},
		"an artifact that nobody looked for": {func(p *planted) { p.remove(inspector, is(anArtifact, didLook)) }, "nobody has looked"},

		"a task without a Result": {func(p *planted) { p.remove("caller-0.0", is(aTask, didEnd)) }, "has no Result"},
		"a task with two Results": {func(p *planted) {
			p.add(inspector, entry{What: didEnd, Kind: aTask, ID: task, Text: "failed: late", Seq: steps + 1})
		}, "and later with"},
		"a task that ends as before when it is asked for again": {func(p *planted) {
			p.add(inspector, p.journals["caller-0.0"][p.at("caller-0.0", is(aTask, didEnd))])
		}, ""},
		"a task carried out twice": {func(p *planted) { p.add("executor-0.1", ran(aTask, task)) }, "was carried out 2 times"},
		"a task carried out twice, because its executor was killed": {func(p *planted) {
			p.remove("executor-0.0", is(aTask, didFinish))
			p.known.kills["executor-0.0"] = span{1, 2}
			p.add("executor-0.1", ran(aTask, task), entry{Op: 50, What: didFinish, Kind: aTask, ID: task})
		}, ""},
		"a task done by nobody":         {func(p *planted) { delete(p.journals, "executor-0.0") }, "nobody has carried it out"},
		"a task that nobody has sent":   {func(p *planted) { p.add("executor-0.1", ran(aTask, "another")) }, "was never sent"},
		"an Event of a task lost":       {func(p *planted) { p.remove("caller-0.0", step("4")) }, "Event 6 after 4"},
		"Events of a task swapped":      {func(p *planted) { p.swap("caller-0.0", step("4"), step("5")) }, "Event 6 after 4"},
		"an executor out of order":      {func(p *planted) { p.edit("caller-0.0", step("4"), func(e *entry) { e.Text = "5" }) }, `said "5" after 3`},
		"the last Event of a task lost": {func(p *planted) { p.remove("caller-0.0", step("10")) }, "and the Result says"},
		"a task fails without a cause": {func(p *planted) {
			p.edit("caller-0.0", is(aTask, didEnd), func(e *entry) { e.Text, e.Payload = "failed: the worker was restarted", "" })
		}, "ended without a cause"},
		"a task fails with its executor, which was killed before it": {func(p *planted) {
			p.edit("caller-0.0", is(aTask, didEnd), func(e *entry) { e.Text, e.Payload = "failed: the worker was restarted", "" })
			p.known.kills["executor-0.0"] = span{1, 2}
			p.add("executor-0.1", entry{What: didBegin, Kind: anExecutor}) // it is written after all others
		}, ""},
		"a task fails with an executor that was there again": {func(p *planted) {
			p.edit("caller-0.0", is(aTask, didEnd), func(e *entry) { e.Text, e.Payload = "failed: the worker was restarted", "" })
			p.known.kills["executor-0.0"] = span{1, 2}
			p.journals["giver-0.0"] = append([]entry{{What: didBegin, Kind: anExecutor}}, p.journals["giver-0.0"]...) // before all others
		}, "ended without a cause"},
		"a task that was refused and carried out": {func(p *planted) {
			p.edit("caller-0.0", is(aTask, didEnd), func(e *entry) { e.Text, e.Payload = "failed: the partner cannot be reached now", "" })
			p.known.troubles = []span{{1, 1 << 62}}
		}, "ended without a cause"},

		"a call without an outcome": {func(p *planted) { p.remove("caller-0.0", is(aCall, didEnd)) }, "has no outcome"},
		"a call run twice":          {func(p *planted) { p.add("backend", ran(aCall, call)) }, "was carried out 2 times"},
		"a call with two outcomes": {func(p *planted) {
			p.add(inspector, entry{What: didEnd, Kind: aCall, ID: call, Text: endOK, Payload: digest([]byte(resultOf(call, 2)))})
		}, "and later with"},
		"a call that returned and never ran": {func(p *planted) { delete(p.journals, "backend") }, "nobody has run it"},
		"a call with another result": {func(p *planted) {
			p.edit("caller-0.0", is(aCall, didEnd), func(e *entry) { e.Payload = "another" })
		}, "returned something else"},
		"a call fails without a cause": {func(p *planted) {
			p.edit("caller-0.0", is(aCall, didEnd), func(e *entry) { e.Text, e.Payload = "internal: outcome unknown", "" })
		}, "ended without a cause"},
		"a call fails because swpd was killed": {func(p *planted) {
			p.edit("caller-0.0", is(aCall, didEnd), func(e *entry) { e.Text, e.Payload = "internal: outcome unknown", "" })
			p.known.troubles = []span{{1, 1 << 62}}
		}, ""},
		"a tool run twice": {func(p *planted) { p.add("tools-2", ran(aToolCall, tool)) }, "was carried out 2 times"},
		"a tool run and said to be repeatable": {func(p *planted) {
			p.edit("caller-0.0", is(aToolCall, didEnd), func(e *entry) { e.Text, e.Payload = `{"retryable":true}`, "" })
			p.known.troubles = []span{{1, 1 << 62}}
		}, "was run and may be repeated"},
	} {
		t.Run(name, func(t *testing.T) {
			p := clean()
			test.plant(p)
			got := p.found(t)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}
