package team_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/agents/team"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
)

const waiting = `{"task":{"id":"t1","contextId":"c","status":{"state":"TASK_STATE_INPUT_REQUIRED"}}}`

// booking is a team whose agent b has the task t1 of the caller.
func booking(t *testing.T, edit func(*team.Options)) (*cast, *team.Team) {
	t.Helper()
	k := &cast{t: t, about: map[string]team.Description{"a": routing("a"), "b": routing("b")}}
	k.scripts = map[string]script{
		"a": turns(says("book", `"b"`), says("all is booked", `"user"`)),
		"b": func(c *call) []string {
			switch {
			case c.kind == "a2a/1.0/GetTask":
				return []string{`{ "id":"t1", "x": 1.0}`}
			case c.kind == "a2a/1.0/CancelTask":
				return []string{`!{"code":-32002,"message":"not now","data":[{"x":9007199254740993}]}`}
			case c.kind == "a2a/1.0/SubscribeToTask":
				return []string{`{ "task":{"id":"t1","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`, `{"statusUpdate":{"taskId":"t1","contextId":"c","status":{"state":"TASK_STATE_COMPLETED","message":{"messageId":"m","parts":[{"text":"x"}],"metadata":{"` + team.URI + `":{"recipient":"user"}}}}}}`}
			case c.message.TaskID != "":
				return []string{says("booked", `"sender"`)}
			}
			return []string{waiting}
		},
	}
	one := k.build(edit)
	if output, _, err := ask(t, one, a2abinding.SendMessage, hello); err != nil || output != waiting {
		t.Fatalf("%s, %v", output, err)
	}
	return k, one
}

func TestWhatFollowsOnATaskGoesToTheMemberThatHasIt(t *testing.T) {
	k, one := booking(t, nil)
	more := `{"message":{"messageId":"2","role":"ROLE_USER","taskId":"t1","contextId":"c","referenceTaskIds":["t1"],"parts":[{"text":"blue"}]}}`
	output, _, err := ask(t, one, a2abinding.SendMessage, more)
	if err != nil || !strings.Contains(output, "all is booked") || k.said() != "a b b a" {
		t.Fatalf("deliveries to %s, %s, %v", k.said(), output, err)
	}
	if last := k.calls[2]; last.routing.Sender != "user" || last.message.TaskID != "t1" {
		t.Errorf("the member was sent %s", last.input)
	}
	if last := k.calls[3]; last.routing.Sender != "b" || last.message.TaskID != "" {
		t.Errorf("the agent that gave the task was sent %s", last.input)
	}
	k.calls = k.calls[:3]
	const get = `{ "id":"t1" , "historyLength":3}`
	if output, _, err = ask(t, one, a2abinding.GetTask, get); err != nil || output != `{ "id":"t1", "x": 1.0}` || k.calls[3].input != get {
		t.Errorf("GetTask: %q, %v, sent %s", output, err, k.calls[3].input)
	}
	_, _, err = ask(t, one, a2abinding.CancelTask, `{"id":"t1"}`)
	if f := failure(t, err); f.Code != -32002 || f.Message != "not now" || string(f.Data) != `[{"x":9007199254740993}]` {
		t.Errorf("CancelTask: %+v", f)
	}
	_, events, err := ask(t, one, a2abinding.SubscribeToTask, `{"id":"t1"}`)
	if err != nil || len(events) != 2 || !strings.HasPrefix(events[0], `{ "task"`) || strings.Contains(events[1], team.URI) {
		t.Errorf("SubscribeToTask: %q, %v", events, err)
	}
}

func TestATaskOfSomebodyElseIsNotThere(t *testing.T) {
	k, one := booking(t, nil)
	for operation, input := range map[string]string{
		a2abinding.GetTask: `{"id":"t1"}`, a2abinding.CancelTask: `{"id":"t1"}`, a2abinding.SubscribeToTask: `{"id":"t1"}`,
		a2abinding.SendMessage:          `{"message":{"messageId":"2","taskId":"t1","parts":[{"text":"x"}]}}`,
		a2abinding.SendStreamingMessage: `{"message":{"messageId":"2","referenceTaskIds":["t1"],"parts":[{"text":"x"}]}}`,
	} {
		_, _, err := askAs(t, "spiffe://example.org/other", one, operation, input)
		if f := failure(t, err); f.Code != a2abinding.CodeTaskNotFound {
			t.Errorf("%s: %+v", operation, f)
		}
		_, _, err = ask(t, one, operation, strings.ReplaceAll(input, "t1", "t2"))
		if f := failure(t, err); f.Code != a2abinding.CodeTaskNotFound {
			t.Errorf("%s, no such task: %+v", operation, f)
		}
	}
	if k.said() != "a b" {
		t.Errorf("members were asked: %s", k.said())
	}
}

func TestWhoHasATaskIsKeptForAWhile(t *testing.T) {
	db := records(t)
	now := time.Now()
	edit := func(o *team.Options) {
		o.Records, o.Retention, o.Now = db, time.Hour, func() time.Time { return now }
	}
	k, _ := booking(t, edit)
	again := k.build(edit) // after a restart
	for range 3 {          // it is used, so it is kept
		now = now.Add(50 * time.Minute)
		if _, _, err := ask(t, again, a2abinding.GetTask, `{"id":"t1"}`); err != nil {
			t.Fatal(err)
		}
	}
	k.scripts = map[string]script{"a": k.scripts["a"]}
	less := k.build(edit) // without b
	_, _, err := ask(t, less, a2abinding.GetTask, `{"id":"t1"}`)
	if f := failure(t, err); f.Code != a2abinding.CodeTaskNotFound {
		t.Errorf("without its member: %+v", f)
	}
}

func TestTheFirstMemberThatNamesATaskHasIt(t *testing.T) {
	k, one := booking(t, nil)
	k.scripts["a"] = always(waiting) // so says a now
	if _, _, err := ask(t, one, a2abinding.SendMessage, hello); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ask(t, one, a2abinding.GetTask, `{"id":"t1"}`); err != nil || k.said() != "a b a b" {
		t.Errorf("deliveries to %s, %v", k.said(), err)
	}
}

func TestOperationsThatATeamDoesNotHave(t *testing.T) {
	k, one := booking(t, nil)
	for operation, code := range map[string]int{
		a2abinding.ListTasks: a2abinding.CodeUnsupported, a2abinding.GetExtendedAgentCard: a2abinding.CodeNoExtendedCard,
		a2abinding.CreatePushConfig: a2abinding.CodeNoPush, a2abinding.GetPushConfig: a2abinding.CodeNoPush,
		a2abinding.ListPushConfigs: a2abinding.CodeNoPush, a2abinding.DeletePushConfig: a2abinding.CodeNoPush,
		"Unknown": a2abinding.CodeUnknownMethod,
	} {
		_, _, err := ask(t, one, operation, `{"taskId":"t1"}`)
		if f := failure(t, err); f.Code != code {
			t.Errorf("%s: %+v, want %d", operation, f, code)
		}
	}
	for input, code := range map[string]int{
		`{`: a2abinding.CodeInvalidParams, `[]`: a2abinding.CodeInvalidParams, `{}`: a2abinding.CodeInvalidParams, `{"message":1}`: a2abinding.CodeInvalidParams,
		`{"message":{},"message":{}}`:                                              a2abinding.CodeInvalidParams,
		`{"Message":{}}`:                                                           a2abinding.CodeInvalidParams,
		`{"message":{"task_id":"t1","taskId":"t1"}}`:                               a2abinding.CodeInvalidParams,
		`{"message":{"taskId":"\ud800"}}`:                                          a2abinding.CodeInvalidParams,
		`{"message":{"metadata":{},"METADATA":{}}}`:                                a2abinding.CodeInvalidParams,
		`{"message":{"extensions":"x"}}`:                                           a2abinding.CodeInvalidParams,
		`{"message":{},"configuration":{"taskPushNotificationConfig":{"url":""}}}`: a2abinding.CodeNoPush,
	} {
		_, _, err := ask(t, one, a2abinding.SendMessage, input)
		if f := failure(t, err); f.Code != code {
			t.Errorf("%s: %+v, want %d", input, f, code)
		}
	}
	if k.said() != "a b" {
		t.Errorf("members were asked: %s", k.said())
	}
}

func TestPR04ATaskOfOneTenantIsNoneOfAnother(t *testing.T) {
	k, one := booking(t, nil) // t1 of b, without a tenant
	k.scripts["a"] = func(c *call) []string {
		if c.kind == "a2a/1.0/GetTask" {
			return []string{`{"id":"t1","of":"a"}`}
		}
		return []string{waiting}
	}
	if _, _, err := ask(t, one, a2abinding.SendMessage, strings.Replace(hello, "{", `{"tenant":"acme",`, 1)); err != nil {
		t.Fatal(err)
	}
	for input, want := range map[string]string{
		`{"id":"t1","tenant":"acme"}`: `{"id":"t1","of":"a"}`, `{"id":"t1"}`: `{ "id":"t1", "x": 1.0}`, `{"id":"t1","tenant":""}`: `{ "id":"t1", "x": 1.0}`,
	} {
		if got, _, err := ask(t, one, a2abinding.GetTask, input); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", input, got, err, want)
		}
	}
	said := k.said()
	for input, code := range map[string]int{
		`{"id":"t1","tenant":"beta"}`:                 a2abinding.CodeTaskNotFound,
		`{"id":"t1","tenant":7}`:                      a2abinding.CodeInvalidParams,
		`{"id":"t1","tenant":"acme","Tenant":"beta"}`: a2abinding.CodeInvalidParams,
	} {
		_, _, err := ask(t, one, a2abinding.GetTask, input)
		if f := failure(t, err); f.Code != code {
			t.Errorf("%s: %+v", input, f)
		}
	}
	if k.said() != said {
		t.Errorf("members were asked: %s", k.said())
	}
}

// Who gave a member its task is known in the later turns of a conversation, also to the next
// process: an answer to the sender goes there.
func TestAnAnswerToTheSenderInALaterTurnGoesToTheAgentThatGaveTheTask(t *testing.T) {
	const more = `{"message":{"messageId":"2","role":"ROLE_USER","taskId":"t1","contextId":"c","parts":[{"text":"blue"}]}}`
	db := records(t)
	k, _ := booking(t, func(o *team.Options) { o.Records = db })
	for name, test := range map[string]struct {
		edit func(*team.Options)
		want string
	}{
		"the next process": {func(*team.Options) {}, "b a"},
		"without the agent that gave it": {func(o *team.Options) {
			delete(o.Members, "a")
			o.Default = "b"
		}, "b"},
	} {
		k.calls = nil
		next := k.build(func(o *team.Options) {
			o.Records = db
			test.edit(o)
		})
		if _, _, err := ask(t, next, a2abinding.SendMessage, more); err != nil || k.said() != test.want {
			t.Errorf("%s: deliveries to %s, want %s, %v", name, k.said(), test.want, err)
		}
	}
	// What the caller gave goes back to the caller.
	direct := &cast{t: t, about: map[string]team.Description{"a": routing("a")}}
	direct.scripts = map[string]script{"a": turns(waiting, says("done", `"sender"`))}
	one := direct.build(nil)
	for range 2 {
		if _, _, err := ask(t, one, a2abinding.SendMessage, hello); err != nil {
			t.Fatal(err)
		}
	}
	if output, _, err := ask(t, one, a2abinding.SendMessage, more); err != nil || !strings.Contains(output, "done") {
		t.Errorf("%s, %v", output, err)
	}
}
