package a2aowners

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/a2a"
)

func task(caller, name, input string) *a2a.Task {
	return &a2a.Task{Kind: "a2a/" + a2abinding.Version + "/" + name, Input: []byte(input), Peer: caller}
}

// code is that of the failure by which a task ends.
func code(t *testing.T, err error) int {
	t.Helper()
	told, ok := errors.AsType[*a2a.Failure](err)
	if !ok {
		t.Fatalf("%v is nothing that the initiator learns", err)
	}
	f, err := a2abinding.Parse(told.Output)
	if err != nil {
		t.Fatal(err)
	}
	return f.Code
}

// carded is an agent whose card a function returns.
type carded func() ([]byte, error)

func (c carded) Card(context.Context) ([]byte, error) { return c() }

// none is an agent without a card.
var none = carded(func() ([]byte, error) { return nil, errors.New("no card") })

// An agent refuses what it does not offer before it looks for a task. So does the endpoint in
// front of it, which looks for the task first.
func TestAWardRefusesAsTheAgentWould(t *testing.T) {
	o := New(Options{Records: newMemory()})
	w := o.Ward("far/agent", task(alice, a2abinding.SendStreamingMessage, `{"message":{}}`))
	if _, keep := w.Event([]byte(`{"task":{"id":"t"}}`)); keep != nil {
		keep(func(error) {})
	}
	for _, row := range []struct {
		card            string
		subscribe, push int
	}{
		{`{"capabilities":{}}`, a2abinding.CodeUnsupported, a2abinding.CodeNoPush},
		{`{"capabilities":{"pushNotifications":false,"streaming":true}}`, a2abinding.CodeTaskNotFound, a2abinding.CodeNoPush},
		{`{"capabilities":{"pushNotifications":true}}`, a2abinding.CodeUnsupported, a2abinding.CodeTaskNotFound},
		{`{"capabilities":{"pushNotifications":true,"streaming":true}}`, a2abinding.CodeTaskNotFound, a2abinding.CodeTaskNotFound},
		{`{"capabilities":[]}`, a2abinding.CodeTaskNotFound, a2abinding.CodeTaskNotFound},
		{`{}`, a2abinding.CodeTaskNotFound, a2abinding.CodeTaskNotFound},
		{``, a2abinding.CodeTaskNotFound, a2abinding.CodeTaskNotFound},
	} {
		asked := 0
		agent := carded(func() ([]byte, error) {
			asked++
			if row.card == "" {
				return nil, errors.New("no card")
			}
			return []byte(row.card), nil
		})
		for input, otherwise := range map[string]int{
			`{"id":"of nobody","taskId":"of nobody"}`: a2abinding.CodeTaskNotFound, `{"id":7,"taskId":7}`: a2abinding.CodeInvalidParams,
		} {
			for name, want := range map[string]int{
				a2abinding.SubscribeToTask: row.subscribe, a2abinding.CreatePushConfig: row.push, a2abinding.GetPushConfig: row.push,
				a2abinding.ListPushConfigs: row.push, a2abinding.DeletePushConfig: row.push,
				a2abinding.GetTask: a2abinding.CodeTaskNotFound, a2abinding.CancelTask: a2abinding.CodeTaskNotFound,
			} {
				if want == a2abinding.CodeTaskNotFound {
					want = otherwise
				}
				if err := o.Ward("far/agent", task(alice, name, input)).Admit(t.Context(), agent); code(t, err) != want {
					t.Errorf("%s, %s of %s: %v, want %d", row.card, name, input, err, want)
				}
			}
		}
		asked = 0
		for _, name := range []string{a2abinding.SubscribeToTask, a2abinding.GetTask} {
			if err := o.Ward("far/agent", task(alice, name, `{"id":"t"}`)).Admit(t.Context(), agent); err != nil {
				t.Errorf("%s, %s: %v", row.card, name, err)
			}
		}
		if asked > 0 {
			t.Errorf("%s: the card was asked for %d times although nothing is refused", row.card, asked)
		}
	}
}

func TestPR04AWardKeepsCallersFromEachOthersTasks(t *testing.T) {
	o := New(Options{Records: newMemory()})
	w := o.Ward("far/agent", task(alice, a2abinding.SendStreamingMessage, `{"message":{}}`))
	if err := w.Admit(t.Context(), none); err != nil {
		t.Fatal(err)
	}
	_, keep := w.Event([]byte(`{"task":{"id":"t"}}`))
	if keep == nil {
		t.Fatal("nothing is kept for the first event")
	}
	keep(func(err error) {
		if err != nil {
			t.Error(err)
		}
	})
	for _, payload := range []string{`{"statusUpdate":{"taskId":"t"}}`, `{`} {
		if passed, keep := w.Event([]byte(payload)); keep != nil || string(passed) != payload {
			t.Errorf("%s becomes %s, or something is kept for an event that says nothing new", payload, passed)
		}
	}
	if err := o.Ward("far/agent", task(alice, a2abinding.GetTask, `{"id":"t"}`)).Admit(t.Context(), none); err != nil {
		t.Error(err)
	}
	if err := o.Ward("far/agent", task(bob, a2abinding.GetTask, `{"id":"t"}`)).Admit(t.Context(), none); code(t, err) != a2abinding.CodeTaskNotFound {
		t.Error(err)
	}
	if err := o.Ward("far/other", task(alice, a2abinding.GetTask, `{"id":"t"}`)).Admit(t.Context(), none); code(t, err) != a2abinding.CodeTaskNotFound {
		t.Error(err)
	}
	if list, err := o.Ward("far/agent", task(bob, a2abinding.ListTasks, `{}`)).Output(t.Context(), []byte(`{"tasks":[{"id":"t"}]}`)); err != nil || string(list) != `{"tasks":[]}` {
		t.Errorf("%s, %v", list, err)
	}
	if _, err := o.Ward("far/agent", task(bob, a2abinding.ListTasks, `{}`)).Output(t.Context(), []byte(`{`)); code(t, err) != a2abinding.CodeInvalidResponse {
		t.Error(err)
	}
}

func TestAWardLetsNothingPassThatItCanNotRead(t *testing.T) {
	o := New(Options{Records: newMemory()})
	for _, row := range []struct {
		task *a2a.Task
		code int
	}{
		{task(alice, "Unknown", `{}`), a2abinding.CodeUnknownMethod},
		{task(alice, "getTask", `{"id":"t"}`), a2abinding.CodeUnknownMethod},
		{task(alice, a2abinding.GetTask, ``), a2abinding.CodeInvalidParams},
		{task(alice, a2abinding.GetTask, `["t"]`), a2abinding.CodeInvalidParams},
		{task(alice, a2abinding.GetTask, `{"id":"t","id":"u"}`), a2abinding.CodeInvalidParams},
	} {
		w := o.Ward("far/agent", row.task)
		if err := w.Admit(t.Context(), none); code(t, err) != row.code {
			t.Errorf("%s %s: %v", row.task.Kind, row.task.Input, err)
		}
		if _, err := w.Output(t.Context(), []byte(`{}`)); code(t, err) != row.code {
			t.Error(err)
		}
		_, keep := w.Event([]byte(`{"task":{"id":"t"}}`))
		keep(func(err error) {
			if code(t, err) != row.code {
				t.Error(err)
			}
		})
	}
}

func TestAnErrorOfTheRecordsIsNotTold(t *testing.T) {
	records := newMemory()
	o := New(Options{Records: records})
	records.fail = errors.New("full")
	w := o.Ward("far/agent", task(alice, a2abinding.SendMessage, `{"message":{"taskId":"t"}}`))
	_, output := w.Output(t.Context(), []byte(`{"task":{"id":"u"}}`))
	errs := []error{w.Admit(t.Context(), none), output}
	w = o.Ward("far/agent", task(alice, a2abinding.SendStreamingMessage, `{}`))
	_, keep := w.Event([]byte(`{"task":{"id":"t"}}`))
	keep(func(err error) { errs = append(errs, err) })
	for _, err := range errs {
		if _, told := errors.AsType[*a2a.Failure](err); told || !errors.Is(err, records.fail) || !strings.HasPrefix(err.Error(), "a2aowners: a2a.owners") {
			t.Error(err)
		}
	}
	records.fail = nil
	keep(func(err error) { // again
		if err != nil {
			t.Error(err)
		}
	})
	if err := o.Ward("far/agent", task(alice, a2abinding.GetTask, `{"id":"t"}`)).Admit(t.Context(), none); err != nil {
		t.Error(err)
	}
}
