package a2aowners

import (
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

func TestPR04AWardKeepsCallersFromEachOthersTasks(t *testing.T) {
	o := New(Options{Records: newMemory()})
	w := o.Ward("far/agent", task(alice, a2abinding.SendStreamingMessage, `{"message":{}}`))
	if err := w.Admit(t.Context()); err != nil {
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
	if err := o.Ward("far/agent", task(alice, a2abinding.GetTask, `{"id":"t"}`)).Admit(t.Context()); err != nil {
		t.Error(err)
	}
	if err := o.Ward("far/agent", task(bob, a2abinding.GetTask, `{"id":"t"}`)).Admit(t.Context()); code(t, err) != a2abinding.CodeTaskNotFound {
		t.Error(err)
	}
	if err := o.Ward("far/other", task(alice, a2abinding.GetTask, `{"id":"t"}`)).Admit(t.Context()); code(t, err) != a2abinding.CodeTaskNotFound {
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
		if err := w.Admit(t.Context()); code(t, err) != row.code {
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
	errs := []error{w.Admit(t.Context()), output}
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
	if err := o.Ward("far/agent", task(alice, a2abinding.GetTask, `{"id":"t"}`)).Admit(t.Context()); err != nil {
		t.Error(err)
	}
}
