package a2a_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
)

// wards are those of a test, for all tasks.
type wards struct {
	mu     sync.Mutex
	said   []string // what they were asked
	admit  []error  // to be returned, one after the other
	keep   []error
	output []error
}

// pop notes what they were asked, and takes the first of some errors, nil if there is
// none left.
func (w *wards) pop(asked string, errs *[]error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, asked)
	if errs == nil || len(*errs) == 0 {
		return nil
	}
	err := (*errs)[0]
	*errs = (*errs)[1:]
	return err
}

func (w *wards) of(agent string, t *a2a.Task) a2a.Ward {
	return ward{w, fmt.Sprintf("%s %s %s %s", t.Peer, agent, t.Kind, t.Input)}
}

type ward struct {
	*wards
	about string
}

func (w ward) Admit(ctx context.Context, agent a2a.Carded) error {
	if octets, err := agent.Card(ctx); err == nil {
		_ = w.pop("card "+string(octets), nil)
	}
	return w.pop("admit "+w.about, &w.admit)
}

func (w ward) Given(input []byte, params []string) ([]byte, []string) {
	if string(input) == "translated" {
		return []byte("for the agent"), []string{"name=for the agent"}
	}
	return input, params
}

func (w ward) Event(payload []byte) ([]byte, func(func(error))) {
	_ = w.pop("event "+string(payload), nil)
	switch string(payload) {
	case "free":
		return payload, nil
	case "translated":
		return []byte("for the initiator"), nil
	}
	text := string(payload)
	return payload, func(done func(error)) { done(w.pop("keep "+text, &w.keep)) }
}

func (w ward) Output(_ context.Context, output []byte) ([]byte, error) {
	return append([]byte("own "), output...), w.pop("output "+string(output), &w.output)
}

// fail has the next of what they do fail, each with the next error.
func (w *wards) fail(of *[]error, errs ...error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*of = errs
}

// heard returns what they were asked since it was called last. Everything rests.
func (w *wards) heard() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	said := w.said
	w.said = nil
	return said
}

const op = "a2a/1.0/GetTask"

func payload(id, text string) *a2a.EventBody {
	return &a2a.EventBody{TaskID: []byte(id), Payload: []byte(text)}
}

var errTold = &a2a.Failure{Reason: "task not found", Output: []byte("-32001")}

func TestPR04AWardRefusesATaskBeforeAnAgentIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wards{}
		s := service(t, a2a.Options{Ward: w.of, Workers: []a2a.Registration{{Agent: "here", Kinds: []string{op}, Worker: counting(0)}}})
		s.Partner("far", carol, "", nil)
		p, agent, far := script(t, s, alice), script(t, s, bob), script(t, s, carol)
		s.Reached("far", far.service, true)
		agent.send(handshake("a", op, "k"))
		synctest.Wait()
		for name, to := range map[string]*peer{"a": agent, "far/b": far, "": agent} {
			known := map[string]string{"": "a"}[name]
			if known == "" {
				known = name
			}
			ext := param(a2a.ExtAgent, name)
			if name == "" {
				ext = nil
			}
			w.fail(&w.admit, errTold)
			p.send(task("no"+name, op, "in"), ext)
			p.want(message{Type: 4, ID: "no" + name, Reason: "task not found", Payload: "-32001"})
			to.quiet()
			asked := []string{"admit " + alice + " " + known + " " + op + " in"}
			if diff := cmp.Diff(asked, w.heard()); diff != "" {
				t.Error(diff)
			}
			w.fail(&w.admit, unavailable, unavailable, nil)
			p.send(task("yes"+name, op, "in"), ext)
			_, id := to.given(op, "in")
			if diff := cmp.Diff(slices.Repeat(asked, 3), w.heard()); diff != "" {
				t.Error(diff)
			}
			w.fail(&w.admit, noRoom)
			p.send(task("full"+name, op, "in"), ext)
			p.want(message{Type: 4, ID: "full" + name, Reason: "what is stored for this identity has reached its limit"})
			to.accept(bad(id, "reason"))
			p.want(message{Type: 4, ID: "yes" + name, Reason: "reason"}) // and its output is not asked for
			if diff := cmp.Diff(asked, w.heard()); diff != "" {
				t.Error(diff)
			}
		}
		p.send(task("kind", "k", "in"))
		agent.given("k", "in")
		p.send(task("here", op, "in"), param(a2a.ExtAgent, "here"))
		p.want(message{Type: 4, ID: "here", OK: true, Payload: "in"})
		if said := w.heard(); len(said) > 0 {
			t.Errorf("asked %q of what is none of theirs", said)
		}
	})
}

func TestAWardIsToldTheCardOfItsAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wards{}
		s := service(t, a2a.Options{Ward: w.of, Card: func(ctx context.Context, at profiles.Session, agent string) ([]byte, error) {
			if agent == "far/absent" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return []byte(agent + " at " + at.Peer().Identity + " for " + profiles.CallerOf(ctx)), nil
		}})
		s.Partner("far", carol, "", nil)
		p, agent, far := script(t, s, alice), script(t, s, bob), script(t, s, carol)
		s.Reached("far", far.service, true)
		agent.send(handshake("a", op))
		synctest.Wait()
		for name, want := range map[string][]string{
			"a":          {"card a at " + bob + " for " + alice},
			"far/b":      {"card far/b at " + carol + " for " + alice},
			"far/absent": nil, // nobody waits for ever
			"far":        nil, // any agent of the partner
		} {
			w.fail(&w.admit, errTold)
			p.send(task("of "+name, op, "in"), param(a2a.ExtAgent, name))
			p.want(message{Type: 4, ID: "of " + name, Reason: "task not found", Payload: "-32001"})
			heard := w.heard()
			if diff := cmp.Diff(want, heard[:len(heard)-1], cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	})
}

func TestAnEventWaitsForWhatItsWardStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wards{}
		s := service(t, a2a.Options{Ward: w.of})
		p, agent := script(t, s, alice), script(t, s, bob)
		agent.send(handshake("a", op))
		synctest.Wait()
		p.send(task("t", op, "in"))
		_, id := agent.given(op, "in")
		w.heard()
		w.fail(&w.keep, unavailable, nil)
		agent.send(payload(id, "first"), number(a2a.ExtSequence, 1))
		agent.send(payload(id, "free"), number(a2a.ExtSequence, 2))
		p.quiet() // neither of them
		if diff := cmp.Diff([]string{"event first", "keep first", "event free"}, w.heard()); diff != "" {
			t.Error(diff)
		}
		time.Sleep(time.Second)
		p.want(message{Type: 3, Seq: 1, ID: "t", Payload: "first"}, message{Type: 3, Seq: 2, ID: "t", Payload: "free"})
		if diff := cmp.Diff([]string{"keep first"}, w.heard()); diff != "" {
			t.Error(diff)
		}
		w.fail(&w.keep, noRoom)
		agent.send(payload(id, "more"), number(a2a.ExtSequence, 3))
		p.want(message{Type: 4, Seq: 2, ID: "t", Reason: "what is stored for this identity has reached its limit"})
	})
}

func TestAWardRefusesAnEventWithAFailureThatTheInitiatorGets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wards{}
		s := service(t, a2a.Options{Ward: w.of, Report: func(err error) { t.Errorf("reported: %v", err) }})
		p, agent := script(t, s, alice), script(t, s, bob)
		agent.send(handshake("a", op))
		synctest.Wait()
		p.send(task("t", op, "in"))
		_, id := agent.given(op, "in")
		w.fail(&w.keep, errTold)
		agent.send(payload(id, "first"), number(a2a.ExtSequence, 1))
		p.want(message{Type: 4, ID: "t", Reason: "task not found", Payload: "-32001"})
	})
}

func TestAWardTranslatesForTheAgentAndForTheInitiator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wards{}
		s := service(t, a2a.Options{Ward: w.of})
		s.Partner("far", carol, "", nil)
		p, agent, far := script(t, s, alice), script(t, s, bob), script(t, s, carol)
		s.Reached("far", far.service, true)
		agent.send(handshake("a", op))
		synctest.Wait()
		for name, to := range map[string]*peer{"a": agent, "far/b": far} {
			p.send(task(name, op, "translated"), param(a2a.ExtAgent, name), param(a2a.ExtParam, "name=of the initiator"))
			m, id := to.given(op, "for the agent")
			if got, _ := m.Ext.Lookup(a2a.ExtParam); string(got) != "name=for the agent" {
				t.Errorf("%s: service parameter %q", name, got)
			}
			to.send(payload(id, "translated"), number(a2a.ExtSequence, 1))
			p.want(message{Type: 3, Seq: 1, ID: name, Payload: "for the initiator"})
		}
	})
}

func TestTheOutputIsThatOfItsWard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wards{}
		s := service(t, a2a.Options{Ward: w.of})
		p, agent := script(t, s, alice), script(t, s, bob)
		agent.send(handshake("a", op))
		synctest.Wait()
		for name, row := range map[string]struct {
			errs []error
			want message
		}{
			"passes": {nil, message{Type: 4, OK: true, Payload: "own out"}},
			"later":  {[]error{unavailable}, message{Type: 4, OK: true, Payload: "own out"}},
			"told":   {[]error{errTold}, message{Type: 4, Reason: "task not found", Payload: "-32001"}},
			"full":   {[]error{noRoom}, message{Type: 4, Reason: "what is stored for this identity has reached its limit"}},
			"broken": {[]error{errors.New("x")}, message{Type: 4, Reason: "the state of the task cannot be read or written"}},
		} {
			p.send(task(name, op, "in"))
			_, id := agent.given(op, "in")
			w.fail(&w.output, row.errs...)
			agent.accept(good(id, "out"))
			agent.accept(good(id, "out")) // once more, of which nobody is told
			row.want.ID = name
			time.Sleep(time.Second)
			p.want(row.want)
		}
	})
}

func TestPR04AWardIsThereAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		m := d.open(t)
		w := &wards{}
		s := service(t, a2a.Options{Store: m, Ward: w.of})
		p, q := script(t, s, alice), script(t, s, bob)
		q.send(handshake("a", op), instance("1"))
		synctest.Wait()
		p.send(task("t", op, "in"))
		_, id := q.given(op, "in")
		p.hangUp()
		q.hangUp()
		s.Close()
		m.close()
		w.heard()

		s = service(t, a2a.Options{Store: d.open(t), Ward: w.of})
		p, q = script(t, s, alice), script(t, s, bob)
		q.send(handshake("a", op), instance("1"))
		q.given(op, "in")
		q.send(payload(id, "one"), number(a2a.ExtSequence, 1))
		q.accept(good(id, "out"))
		p.send(task("t", op, "in"), number(a2a.ExtResume, 0))
		p.want(message{Type: 3, Seq: 1, ID: "t", Payload: "one"}, message{Type: 4, Seq: 1, ID: "t", OK: true, Payload: "own out"})
		if diff := cmp.Diff([]string{"event one", "keep one", "output out"}, w.heard()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestATaskForAPartnerThatIsAwayFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const away = "the partner cannot be reached now"
		s := service(t, a2a.Options{})
		s.Partner("far", carol, "", nil)
		p := script(t, s, alice)
		agent := param(a2a.ExtAgent, "far/b")
		began := time.Now()
		waits := func(id string, want time.Duration) {
			t.Helper()
			sent := time.Now()
			p.send(task(id, op, ""), agent)
			p.want(message{Type: 4, ID: id, Reason: away})
			if got := time.Since(sent); got != want {
				t.Errorf("%s waited for %v, want %v", id, got, want)
			}
		}
		time.Sleep(2 * time.Second)
		waits("never there", 3*time.Second)
		waits("a little later", 0)

		far := script(t, s, carol)
		s.Reached("far", far.service, true)
		p.send(task("given", op, "1"), agent)
		_, given := far.given(op, "1")
		far.hangUp()
		p.send(task("waits", op, "2"), agent)
		time.Sleep(5*time.Second - 1)
		p.quiet()
		far = script(t, s, carol)
		s.Reached("far", far.service, true)
		got := []string{far.next().ID, far.next().ID}
		if !slices.Contains(got, given) {
			t.Errorf("tasks %x, want %x among them", got, given)
		}
		for _, id := range got {
			far.accept(good(id, "out"))
			if m := p.next(); !m.OK {
				t.Errorf("%+v", m)
			}
		}

		far.hangUp()
		synctest.Wait() // a task that is given to a session that is just ending waits for its deadline
		waits("gone", 5*time.Second)
		waits("gone for long", 0)
		time.Sleep(time.Hour - time.Since(began))
		waits("still gone", 0)
	})
}
