package slip_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/slip"
	"github.com/slimwire/swp/slip/nslip"
)

// task is what TASK_ID stands for here.
var task = slip.Meaning{Code: nslip.TaskID, Reference: slip.Reference{Kind: "task", ID: "0011"}}

func TestHandlesAreResolvedWithinTheirConversation(t *testing.T) {
	h := newHub(t, "hub", nil)
	a, b, c := h.join("id-a", "coordinator"), h.join("id-b", "planner"), h.join("id-c", "executor")
	a.send(slip.TypeNSLIP, `@a3|f0|c3|S0|d1|T1|kg|rA#`, task)
	if diff := cmp.Diff(got{slip.TypeNSLIP, `@a3|f0|c3|S0|d1|T1|kg|rA#`, []slip.Meaning{task}}, b.gets()); diff != "" {
		t.Error(diff)
	}
	result := slip.Meaning{Code: nslip.ResultID, Reference: slip.Reference{Kind: "artifact", ID: "report: v1"}}
	b.send(slip.TypeNSLIP, `@a1|f0|c3|S1|d0|T2|rA|kg#`, result) // both directions are one conversation
	if diff := cmp.Diff([]slip.Meaning{task, result}, a.gets().Handles); diff != "" {
		t.Error(diff)
	}
	parent := task
	parent.Code = nslip.ParentTaskID
	a.send(slip.TypeNSLIP, `@a3|f0|c3|S0|d1|T3|pg|kh#`) // a parent is a task
	if diff := cmp.Diff([]slip.Meaning{parent}, b.gets().Handles); diff != "" {
		t.Error(diff)
	}
	a.send(slip.TypeNSLIP, `@a3|f0|c4|S0|d1|T1|kg#`) // another conversation
	if m := b.gets(); m.Handles != nil {
		t.Errorf("%+v", m)
	}
	a.send(slip.TypeNSLIP, `@a3|f0|c3|S0|d2|T1|kg#`) // with another agent
	if m := c.gets(); m.Handles != nil {
		t.Errorf("%+v", m)
	}
}

func TestHandlesThatCanNotBeReadAreRefused(t *testing.T) {
	h := newHub(t, "hub", nil)
	a, b := h.join("id-a", "coordinator"), h.join("id-b", "planner")
	a.send(slip.TypeNSLIP, `@a3|f0|c3|S0|d1|T1|kg#`, task)
	b.gets()
	n := 1
	for _, test := range []struct {
		from    *agent
		payload string
		value   string
	}{
		{a, `@a3|f0|c3|S0|d1|T1|kg#`, "k=task:"},
		{a, `@a3|f0|c3|S0|d1|T1|kg#`, "k=task"},
		{a, `@a3|f0|c3|S0|d1|T1|kg#`, "k=file:1"},
		{a, `@a3|f0|c3|S0|d1|T1|kg#`, "q=task:1"},
		{a, `@a3|f0|c3|S0|d1|T1|kg#`, "k=task:\n"},
		{a, `@a3|f0|c3|S0|d1|T1|kg#`, "k=task:\xff"},
		{a, `@a3|f0|c3|S0|d1|T1|kg#`, "k"},
		{a, `@a3|f0|c3|S0|d1|T1|kg#`, fmt.Sprintf("k=task:%0257d", 1)},
		{a, `@a3|f0|c3|S0|d1|T1#`, "k=task:0011"},     // there is no such slot
		{b, `@a3|f0|c3|S1|d0|T1|kg#`, "k=task:other"}, // and it stands for something else
	} {
		id := profiles.NewMsgID()
		err := test.from.session.Send(t.Context(), e1.Envelope{
			ProfileID: slip.ProfileID, MsgType: slip.TypeNSLIP, MsgID: id, Payload: []byte(test.payload),
			Extensions: e1.AppendExtension(nil, slip.ExtHandle, []byte(test.value)),
		})
		if err != nil {
			t.Fatal(err)
		}
		if code := test.from.refused(string(id)); code != slip.CodeBadHandle {
			t.Errorf("%q: %s", test.value, code)
		}
		n++
	}
	if code := a.refused(a.send(slip.TypeSLIP, words, task)); code != slip.CodeBadHandle {
		t.Errorf("words with a handle: %s", code)
	}
}

func TestRS08HandlesAreBounded(t *testing.T) {
	handle := func(i int) slip.Handle { return slip.Handle{A: "a", B: "b", Conv: uint64(i), Code: nslip.GoalID} }
	to := slip.Reference{Kind: "task", ID: "1"}
	table := slip.NewHandles(slip.HandlesOptions{Total: 8, PerIdentity: 4})
	for i := range 5 {
		table.Bind("x", handle(i), to)
	}
	if _, ok := table.Resolve(handle(0)); ok || table.Len() != 4 {
		t.Errorf("%d handles of one identity", table.Len())
	}
	for i := 5; i < 10; i++ {
		table.Bind(fmt.Sprint("y", i), handle(i), to)
	}
	if _, ok := table.Resolve(handle(1)); ok || table.Len() != 8 {
		t.Errorf("%d handles of all", table.Len())
	}
	if _, ok := table.Resolve(handle(2)); !ok {
		t.Error("more than the oldest was forgotten")
	}
	if table.Bind("z", handle(2), slip.Reference{Kind: "task", ID: "2"}) {
		t.Error("another identity has bound it otherwise")
	}
	if !table.Bind("z", handle(2), to) || !table.Bind("x", handle(2), slip.Reference{Kind: "task", ID: "2"}) {
		t.Error("what says the same, or is of the first, is refused")
	}
	if r, _ := table.Resolve(handle(2)); r.ID != "2" {
		t.Errorf("%+v", r)
	}
}
