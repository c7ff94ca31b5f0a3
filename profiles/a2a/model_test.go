package a2a_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

// modelTask is what there is to know of a task of an initiator.
type modelTask struct {
	input    string   // of the first Task
	events   []string // stored
	run      *run     // nil unless a Worker has it
	result   string   // how it ended, empty while it has not
	own      string   // the initiator's Result, empty while there is none
	receives *peer    // the newest sender, nil if its connection is gone
	at       int      // events it was sent
}

// model plays random messages of initiators, random deeds of Workers and
// restarts against a Service, and says what must come of each.
type model struct {
	t     *testing.T
	r     *rand.Rand
	disk  *disk
	w     *worker
	s     *a2a.Service
	store *memory
	peers []*peer
	tasks map[string]*modelTask // by identity and task_id
	want  map[*peer][]string
	trace []string
}

func (m *model) open() {
	m.store = m.disk.open(m.t)
	m.s = service(m.t, a2a.Options{Store: m.store, Workers: kinds(m.w, "k")})
	m.peers = []*peer{script(m.t, m.s, alice), script(m.t, m.s, bob), script(m.t, m.s, alice)}
}

// restart ends the process and starts another.
func (m *model) restart() {
	for _, p := range m.peers {
		p.hangUp()
	}
	m.s.Close()
	m.store.close()
	for _, task := range m.tasks {
		task.receives, task.run = nil, nil
		if task.result == "" {
			task.result = "no interrupted by a restart"
		}
	}
	m.open()
}

func (m *model) pick(n int) int { return m.r.IntN(n) }

func (m *model) step() {
	p := m.peers[m.pick(len(m.peers))]
	id := fmt.Sprint("task", m.pick(2))
	who := p.service.Peer().Identity
	task := m.tasks[who+id]
	switch m.pick(12) {
	case 0, 1, 2:
		m.sendTask(p, who, id, []string{"x", "y"}[m.pick(2)], m.pick(2) == 0)
	case 3, 4:
		want := task != nil && task.own == ""
		m.judge(p, event(id, "from the initiator"), want)
	case 5:
		m.sendResult(p, task, good(id, "own"), "ok own")
	case 6:
		m.sendResult(p, task, bad(id, "own"), "no own")
	case 7, 8, 9:
		if task != nil && task.run != nil {
			m.progress(id, task)
		}
	case 10:
		if task != nil && task.run != nil {
			m.note("finish %s of %s", id, who)
			task.run.finish("out")
			task.run = nil
			m.end(id, task, "ok out")
		}
	case 11:
		if m.pick(4) == 0 {
			m.note("restart")
			m.restart()
		}
	}
	m.compare()
}

func (m *model) note(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}

func (m *model) sendTask(p *peer, who, id, input string, resume bool) {
	task := m.tasks[who+id]
	fresh := task == nil
	if fresh {
		task = &modelTask{input: input}
		m.tasks[who+id] = task
	}
	after := 0
	if len(task.events) > 0 {
		after = m.pick(len(task.events) + 1)
	}
	m.note("%s sends task %s with %s, resume %v after %d", who, id, input, resume, after)
	before := len(p.service.Verdicts())
	if resume {
		p.send(&a2a.TaskBody{TaskID: []byte(id), Kind: []byte("k"), Input: []byte(input)}, number(a2a.ExtResume, uint64(after)))
	} else {
		p.send(&a2a.TaskBody{TaskID: []byte(id), Kind: []byte("k"), Input: []byte(input)})
	}
	synctest.Wait()
	if input != task.input {
		for _, v := range p.service.Verdicts()[before:] {
			if v.Code == profiles.InvalidProfilePayload {
				return
			}
		}
		m.fail("the conflicting task was not refused")
	}
	if fresh {
		task.run = m.w.started(m.t)
	}
	task.receives, task.at = p, len(task.events)
	if resume {
		task.at = after
	}
	m.deliver(id, task)
}

// deliver notes what the receiver of a task must get now.
func (m *model) deliver(id string, task *modelTask) {
	p := task.receives
	if p == nil {
		return
	}
	for ; task.at < len(task.events); task.at++ {
		m.want[p] = append(m.want[p], fmt.Sprintf("%s event %d %s", id, task.at+1, task.events[task.at]))
	}
	if task.result != "" {
		m.want[p] = append(m.want[p], fmt.Sprintf("%s result %d %s", id, len(task.events), task.result))
		task.receives = nil
	}
}

func (m *model) progress(id string, task *modelTask) {
	text := fmt.Sprint("e", len(task.events)+1)
	m.note("progress of %s: %s", id, text)
	task.run.progress(m.t, text)
	task.events = append(task.events, text)
	m.deliver(id, task)
}

func (m *model) end(id string, task *modelTask, result string) {
	task.result = result
	m.deliver(id, task)
}

func (m *model) sendResult(p *peer, task *modelTask, b body, text string) {
	if task == nil {
		m.judge(p, b, false)
		return
	}
	m.judge(p, b, task.own == "" || task.own == text)
	if task.own == "" {
		task.own = text
	}
	if task.result == "" {
		if task.run.ctx.Err() == nil {
			m.fail("the worker was not stopped")
		}
		task.result, task.run = text, nil
		task.receives = nil // it said so itself
	}
}

func (m *model) judge(p *peer, b body, ok bool) {
	m.note("%s sends %T, accepted %v", p.service.Peer().Identity, b, ok)
	want := profiles.InvalidProfilePayload
	if ok {
		want = profiles.OK
	}
	if code := p.verdict(b); code != want {
		m.fail("%v, want %v", code, want)
	}
}

// compare wants that what came is what was to come, and nothing ran twice.
func (m *model) compare() {
	synctest.Wait()
	for _, p := range m.peers {
		var got []string
		for len(p.got) > 0 {
			g := p.next()
			switch g.Type {
			case a2a.TypeEvent:
				got = append(got, fmt.Sprintf("%s event %d %s", g.ID, g.Seq, g.Message))
			case a2a.TypeResult:
				text := "ok " + g.Payload
				if !g.OK {
					text = "no " + g.Reason
				}
				got = append(got, fmt.Sprintf("%s result %d %s", g.ID, g.Seq, text))
			}
		}
		if diff := cmp.Diff(m.want[p], got); diff != "" {
			m.fail("%s (-want +got):\n%s", p.service.Peer().Identity, diff)
		}
	}
	clear(m.want)
	if len(m.w.runs) > 0 {
		m.fail("a task was executed again")
	}
}

func (m *model) fail(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(m.trace, "\n"))
}

func TestPR03RulesHoldForWhateverInitiatorsSendAlsoAfterARestart(t *testing.T) {
	for seed := range uint64(effort.Rounds(150)) {
		synctest.Test(t, func(t *testing.T) {
			m := &model{
				t: t, r: rand.New(rand.NewPCG(seed, 3)), disk: newDisk(), w: newWorker(),
				tasks: make(map[string]*modelTask), want: make(map[*peer][]string),
			}
			m.open()
			for range 60 {
				m.step()
			}
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// modelSent is what there is to know of a task that was sent.
type modelSent struct {
	d      *a2a.Delivery
	ours   bool     // ended on this side
	result string   // the executor's, empty while there is none
	events []string // not received yet
}

func TestPR03RulesHoldForWhateverExecutorsSend(t *testing.T) {
	for seed := range uint64(effort.Rounds(150)) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 4))
			s := service(t, a2a.Options{})
			p, q := script(t, s, bob), script(t, s, carol)
			var sent []*modelSent
			var trace []string
			for range 60 {
				note := func(format string, args ...any) { trace = append(trace, fmt.Sprintf(format, args...)) }
				if len(sent) == 0 || r.IntN(8) == 0 {
					d, err := s.Send(t.Context(), p.service, &a2a.Task{Kind: "k"}, a2a.SendOptions{})
					if err != nil {
						t.Fatal(err)
					}
					defer d.Close()
					sent = append(sent, &modelSent{d: d})
					note("send %d", len(sent))
					continue
				}
				i := r.IntN(len(sent))
				task := sent[i]
				id := string(task.d.ID())
				check := func(b body, ok bool) {
					t.Helper()
					note("%T of %d, accepted %v", b, i, ok)
					if code := p.verdict(b); (code == profiles.OK) != ok {
						t.Fatalf("%v\nafter:\n%s", code, strings.Join(trace, "\n"))
					}
				}
				switch r.IntN(8) {
				case 0, 1, 2:
					text := fmt.Sprint("e", r.IntN(100))
					check(event(id, text), task.result == "")
					if !task.ours && task.result == "" {
						task.events = append(task.events, text)
					}
				case 3, 4:
					b, text := body(good(id, "out")), "out"
					if r.IntN(2) == 0 {
						b, text = bad(id, "bad"), "bad"
					}
					check(b, task.result == "" || task.result == text)
					if task.result == "" {
						task.result = text
					}
				case 5:
					note("cancel %d", i)
					over := task.ours || task.result != ""
					if err := task.d.Cancel(t.Context(), "enough"); err != nil {
						t.Fatal(err)
					}
					if !over {
						task.ours = true
					}
				case 6:
					if task.ours || len(task.events) == 0 {
						continue
					}
					note("receive of %d", i)
					e, err := task.d.Recv(t.Context())
					if err != nil || e.Message != task.events[0] {
						t.Fatalf("%+v, %v, want %s", e, err, task.events[0])
					}
					task.events = task.events[1:]
				case 7: // somebody else's words are nothing
					q.refuse(event(id, "e"), good(id, ""))
				}
			}
			for i, task := range sent {
				if task.ours || task.result == "" {
					continue
				}
				for range task.events {
					if _, err := task.d.Recv(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := task.d.Recv(t.Context()); !errors.Is(err, io.EOF) {
					t.Fatalf("task %d: %v, want the end", i, err)
				}
				if got := task.d.Result(); string(got.Output)+got.Reason != task.result {
					t.Errorf("task %d: %+v, want %s", i, got, task.result)
				}
			}
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
