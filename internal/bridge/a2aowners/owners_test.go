package a2aowners

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
)

func TestPR04ATaskIsThatOfWhoWasToldOfItFirst(t *testing.T) {
	o := New(Options{Records: newMemory()})
	own(t, o, alice, "", "t")
	own(t, o, bob, "", "t") // an agent that says the same id again
	for _, row := range []struct {
		caller, name, input string
		ok                  bool
	}{
		{alice, a2abinding.GetTask, `{"id":"t"}`, true},
		{bob, a2abinding.GetTask, `{"id":"t"}`, false},
		{alice, a2abinding.GetTask, `{"id":"none"}`, false},
		{bob, a2abinding.SendMessage, `{"message":{"taskId":"t"}}`, false},
		{bob, a2abinding.SendStreamingMessage, `{"message":{"referenceTaskIds":["t"]}}`, false},
		{bob, a2abinding.CreatePushConfig, `{"taskId":"t"}`, false},
		{bob, a2abinding.SendMessage, `{"configuration":{"taskPushNotificationConfig":{"taskId":"t"}}}`, false},
		{bob, a2abinding.ListTasks, `{}`, true},
	} {
		err := operation(t, o, row.caller, row.name, row.input).Admit(t.Context())
		if row.ok != (err == nil) || !row.ok && !errors.Is(err, errNotFound) {
			t.Errorf("%s of %s, %s: %v", row.name, row.caller, row.input, err)
		}
	}
}

func TestPR04ATaskOfOneTenantIsNoneOfAnother(t *testing.T) {
	o := New(Options{Records: newMemory()})
	own(t, o, alice, "acme", "t")
	own(t, o, bob, "", "t")
	own(t, o, bob, "beta", "t")
	for _, row := range []struct {
		caller, tenant string
		ok             bool
	}{
		{alice, "acme", true}, {alice, "", false}, {alice, "beta", false},
		{bob, "acme", false}, {bob, "", true}, {bob, "beta", true}, {bob, "acme/", false},
	} {
		err := operation(t, o, row.caller, a2abinding.GetTask, `{"id":"t","tenant":"`+row.tenant+`"}`).Admit(t.Context())
		if row.ok != (err == nil) {
			t.Errorf("%s in %q: %v", row.caller, row.tenant, err)
		}
		list, err := operation(t, o, row.caller, a2abinding.ListTasks, `{"tenant":"`+row.tenant+`"}`).Output(t.Context(), []byte(`{"tasks":[{"id":"t"}]}`))
		if err != nil || (string(list) == `{"tasks":[]}`) == row.ok {
			t.Errorf("%s in %q: %s, %v", row.caller, row.tenant, list, err)
		}
	}
}

func TestATaskOfOneAgentIsNoneOfAnother(t *testing.T) {
	o := New(Options{Records: newMemory()})
	own(t, o, alice, "", "t")
	get, _ := a2abinding.Named(a2abinding.GetTask)
	for agent, input := range map[string]string{"other": `{"id":"t"}`, `agent" "`: `{"id":"t"}`, "age": `{"id":"t","tenant":"nt"}`} {
		p, err := o.Operation(agent, alice, get, object(t, input))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Admit(t.Context()); !errors.Is(err, errNotFound) {
			t.Errorf("%s: %v", agent, err)
		}
	}
}

func TestWhatTwoParsersReadDifferentlyIsRefused(t *testing.T) {
	o := New(Options{Records: newMemory()})
	for name, inputs := range map[string][]string{
		a2abinding.GetTask: {
			`{"id":"a","id":"b"}`, `{"id":"a","ID":"b"}`, `{"Id":"a"}`, `{"id":["a"]}`, `{"id":"a","tenant":"x","Tenant":"y"}`, `{"id":"a","tenant":7}`,
		},
		a2abinding.SendMessage: {
			`{"message":{"task_id":"a","taskId":"a"}}`, `{"message":{"Task_id":"a"}}`, `{"message":{},"Message":{}}`, `{"message":{"referenceTaskIds":"a"}}`,
			`{"tenant":"x","configuration":{"taskPushNotificationConfig":{"tenant":"y"}}}`, `{"configuration":{"taskPushNotificationConfig":{"tenant":"y"}}}`,
			`{"message":{"referenceTaskIds":[` + strings.Repeat(`"a",`, maxReferences) + `"a"]}}`,
		},
	} {
		for _, input := range inputs {
			op, _ := a2abinding.Named(name)
			_, err := o.Operation("agent", alice, op, object(t, input))
			if f, ok := errors.AsType[*a2abinding.Failure](err); !ok || f.Code != a2abinding.CodeInvalidParams {
				t.Errorf("%s %.80s: %v", name, input, err)
			}
		}
	}
	operation(t, o, alice, a2abinding.SendMessage, `{"tenant":"x","message":{"taskId":"","referenceTaskIds":null},"configuration":{"taskPushNotificationConfig":{"tenant":"x"}}}`)
	// Either spelling of ProtoJSON is that of the task.
	own(t, o, bob, "", "of bob")
	op, _ := a2abinding.Named(a2abinding.SendMessage)
	for _, input := range []string{`{"message":{"task_id":"of bob"}}`, `{"message":{"reference_task_ids":["of bob"]}}`} {
		p, err := o.Operation("agent", alice, op, object(t, input))
		if err == nil {
			err = p.Admit(t.Context())
		}
		if f, ok := errors.AsType[*a2abinding.Failure](err); !ok || f.Code != a2abinding.CodeTaskNotFound {
			t.Errorf("%s: %v, want that there is no such task", input, err)
		}
	}
	operation(t, o, alice, a2abinding.SendMessage, `{"message":{"referenceTaskIds":[`+strings.Repeat(`"a",`, maxReferences-1)+`"a"]}}`)
}

func TestPR04ListsAreOfTheCallersTasksOnly(t *testing.T) {
	o := New(Options{Records: newMemory()})
	own(t, o, alice, "", "a")
	own(t, o, bob, "", "b")
	p := operation(t, o, alice, a2abinding.ListTasks, `{}`)
	const all = `{ "tasks" : [ {"id":"a"} , {"id":"a"} ] , "n":[]}`
	for in, want := range map[string]string{
		all: all, `{"tasks":[ ]}`: `{"tasks":[ ]}`, `{}`: `{}`, `{"tasks":null}`: `{"tasks":null}`,
		`{"n":1.0, "tasks":[ {"id":"a","x":9007199254740993} ,{"id":"b"}, {}, 7,{"id":"a" } ]}`: `{"n":1.0, "tasks":[{"id":"a","x":9007199254740993},{"id":"a" }]}`,
		`{"tasks":[{"id":"a"},{"id":"b","id":"a"}]}`:                                            `{"tasks":[{"id":"a"}]}`,
		`{"tasks":[` + strings.Repeat(`{"id":"b"},`, maxListed-1) + `{"id":"b"}]}`:              `{"tasks":[]}`,
	} {
		got, err := p.Output(t.Context(), []byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%.80s: %s, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{`[]`, `{"tasks":7}`, `{`, `{"tasks":[{"id":"b"}],"tasks":[{"id":"a"}]}`, `{"tasks":[` + strings.Repeat(`1,`, maxListed) + `1]}`} {
		if got, err := p.Output(t.Context(), []byte(in)); err == nil || got != nil {
			t.Errorf("%.50s: %s", in, got)
		}
	}
}

// Of two members of one name the client may read the other one.
func TestPR04AnAnswerThatNamesItsTaskTwiceIsNotPassedOn(t *testing.T) {
	for _, response := range []string{
		`{"task":{"id":"t"},"task":{"id":"u"}}`, `{"task":{"id":"t","id":"u"}}`, `{"task":{"id":"t","\u0069d":"u"}}`,
		`{"message":{"taskId":"t","taskId":"u"}}`, `{"message":{},"message":{"taskId":"t"}}`,
	} {
		records := newMemory()
		w := New(Options{Records: records}).Ward("far/agent", task(alice, a2abinding.SendMessage, `{"message":{}}`))
		if got, err := w.Output(t.Context(), []byte(response)); code(t, err) != a2abinding.CodeInvalidResponse || got != nil {
			t.Errorf("output %s: %s, %v", response, got, err)
		}
		_, keep := w.Event([]byte(response))
		if keep == nil {
			t.Errorf("event %s: passed on", response)
			continue
		}
		keep(func(err error) {
			if code(t, err) != a2abinding.CodeInvalidResponse {
				t.Errorf("event %s: %v", response, err)
			}
		})
		if records.puts != 0 {
			t.Errorf("%s: a task was kept", response)
		}
	}
}

func TestOtherOutputsStayAsTheyAre(t *testing.T) {
	records := newMemory()
	o := New(Options{Records: records})
	for name, output := range map[string]string{
		a2abinding.GetTask: `{"id":"t"}`, a2abinding.GetExtendedAgentCard: `{}`, a2abinding.DeletePushConfig: ``, a2abinding.SendMessage: `no JSON`,
	} {
		got, err := operation(t, o, alice, name, `{}`).Output(t.Context(), []byte(output))
		if err != nil || string(got) != output || records.puts > 0 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestWhoseATaskIsIsForgottenAfterItsLastUse(t *testing.T) {
	now := time.Unix(0, 0)
	records := newMemory()
	o := New(Options{Records: records, Retention: 100 * time.Hour, Now: func() time.Time { return now }})
	until := func() time.Duration {
		for _, r := range records.records {
			if r.owner != alice {
				t.Errorf("a record of %q", r.owner)
			}
			return r.expires.Sub(time.Unix(0, 0))
		}
		return 0
	}
	own(t, o, alice, "", "t")
	for _, row := range []struct{ at, want int }{{0, 100}, {25, 100}, {26, 126}, {40, 126}, {120, 220}} {
		now = time.Unix(0, 0).Add(time.Duration(row.at) * time.Hour)
		if err := operation(t, o, alice, a2abinding.GetTask, `{"id":"t"}`).Admit(t.Context()); err != nil || until() != time.Duration(row.want)*time.Hour {
			t.Errorf("used after %d h: kept for %v, %v, want %d h", row.at, until(), err, row.want)
		}
		if err := operation(t, o, bob, a2abinding.GetTask, `{"id":"t"}`).Admit(t.Context()); !errors.Is(err, errNotFound) {
			t.Error(err)
		}
	}
	if until() != 220*time.Hour {
		t.Error("who may not use it kept it")
	}
}

func TestATaskIsStoredOnceForAStream(t *testing.T) {
	records := newMemory()
	o := New(Options{Records: records})
	p := operation(t, o, alice, a2abinding.SendStreamingMessage, `{"message":{}}`)
	for _, event := range []string{`{"task":{"id":"t"}}`, `{"statusUpdate":{"taskId":"t"}}`, `{"artifactUpdate":{"taskId":"t"}}`, `{"message":{}}`, `{"other":{"id":"u"}}`} {
		if err := p.Claim(t.Context(), object(t, event)); err != nil {
			t.Fatal(err)
		}
	}
	if err := operation(t, o, alice, a2abinding.SubscribeToTask, `{"id":"t"}`).Claim(t.Context(), object(t, `{"task":{"id":"t"}}`)); err != nil {
		t.Fatal(err)
	}
	if records.puts != 1 {
		t.Errorf("%d records were written", records.puts)
	}
}
