package slip_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/slip"
	"github.com/slimwire/swp/slip/ucr"
)

// bridge reaches one agent.
type bridge struct {
	agent   string
	crossed chan slip.Crossing
	refuses error
	answers slip.Answered
}

func (b *bridge) Has(agentID string) bool { return agentID == b.agent }

func (b *bridge) Cross(_ context.Context, c *slip.Crossing, answered func(slip.Answered)) error {
	if b.refuses != nil {
		return b.refuses
	}
	b.crossed <- *c
	answered(b.answers)
	return nil
}

// bridged is a hub with a bridge to the agent reviewer.
func bridged(t *testing.T, answers slip.Answered, change func(*slip.Options)) (*hub, *bridge) {
	b := &bridge{agent: "reviewer", crossed: make(chan slip.Crossing, 8), answers: answers}
	return newHub(t, "hub", func(o *slip.Options) {
		o.Bridge, o.Numbers[3] = b, "reviewer"
		if change != nil {
			change(o)
		}
	}), b
}

const request, approval = "SLIP v1 planner reviewer RequestReview x", "SLIP v1 reviewer planner EvalApprove x"

func TestALineCrossesTheBridgeAndItsAnswerComesBack(t *testing.T) {
	for name, ids := range map[string][]string{"to the session of the agent": {"planner"}, "to the session that asked": nil} {
		h, b := bridged(t, slip.Answered{Line: approval, Same: true}, nil)
		asks := h.join("alice")
		hears := asks
		if ids != nil {
			hears = h.join("alice", ids...)
		}
		asks.send(slip.TypeSLIP, request)
		want := slip.Crossing{Identity: "alice", Src: "planner", Dst: "reviewer", Line: request, Same: true}
		if diff := cmp.Diff(want, wait(t, b.crossed)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(got{Type: slip.TypeSLIP, Payload: approval}, hears.gets()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestALineOfUnknownAnchorsCrossesWithoutTheirHash(t *testing.T) {
	h, b := bridged(t, slip.Answered{}, nil)
	a := h.join("alice")
	env := e1.Envelope{ProfileID: slip.ProfileID, MsgType: slip.TypeSLIP, MsgID: profiles.NewMsgID(), Payload: []byte(request)}
	env.Extensions = e1.AppendExtensionUvarint(nil, profiles.ExtHops, 3)
	if err := a.session.Send(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	if c := wait(t, b.crossed); c.Same || c.Hops != 3 {
		t.Errorf("%+v", c)
	}
}

func TestWhatCannotCrossIsRefusedWithTheReason(t *testing.T) {
	h, b := bridged(t, slip.Answered{}, nil)
	b.refuses = slip.Refuse("ucr_missing", "a ucrHash is required")
	a := h.join("alice")
	if code := a.refused(a.send(slip.TypeSLIP, request)); code != "ucr_missing" {
		t.Error(code)
	}
	b.refuses = nil
	for payload, want := range map[string]string{
		"SLIP v1 planner reviewer RequestNothing x": "unknown_anchor", // that of a partner could pass, an agent here has ours
		`@a3|f0|c3|S1|d3|T1#`:                       "language",
	} {
		msgType := uint64(slip.TypeSLIP)
		if payload[0] == '@' {
			msgType = slip.TypeNSLIP
		}
		if code := a.refused(a.send(msgType, payload)); code != want {
			t.Errorf("%s: %s, want %s", payload, code, want)
		}
	}
	if len(b.crossed) > 0 {
		t.Errorf("crossed: %+v", <-b.crossed)
	}
}

func TestWhyThereIsNoAnswerIsTold(t *testing.T) {
	for name, row := range map[string]struct {
		answers slip.Answered
		code    string
	}{
		"the agent refuses":          {slip.Answered{Code: "not_now", Text: "later"}, "not_now"},
		"it says something else":     {slip.Answered{Line: "approved"}, "unanswered"},
		"it answers as another":      {slip.Answered{Line: "SLIP v1 boss planner EvalApprove x"}, "unanswered"},
		"it answers to another":      {slip.Answered{Line: "SLIP v1 reviewer boss EvalApprove x"}, "unanswered"},
		"the asked agent is reached": {slip.Answered{Line: approval, Same: true}, ""},
	} {
		h, b := bridged(t, row.answers, nil)
		a := h.join("alice", "planner")
		id := a.send(slip.TypeSLIP, request)
		wait(t, b.crossed)
		if row.code == "" {
			a.gets()
			continue
		}
		if code := a.refused(id); code != row.code {
			t.Errorf("%s: %s, want %s", name, code, row.code)
		}
	}
}

func TestAnAnswerForAnAgentThatIsAwayIsKept(t *testing.T) {
	relay := &box{agent: "planner", kept: make(chan kept, 8)}
	h, _ := bridged(t, slip.Answered{Line: approval}, func(o *slip.Options) { o.Relay = relay })
	away := h.join("alice", "planner")
	away.session.Close()
	away.hub.Wait()
	a := h.join("alice")
	a.send(slip.TypeSLIP, request)
	k := wait(t, relay.kept)
	k.MsgID = ""
	if diff := cmp.Diff(kept{Identity: "alice", Agent: "planner", Text: approval}, k); diff != "" {
		t.Error(diff)
	}
	relay.fault = errors.New("full")
	if code := a.refused(a.send(slip.TypeSLIP, request)); code != "unanswered" {
		t.Error(code)
	}
}

// Two agents that answer every message, on the two sides of a link, come to an end.
func TestAnAnswerHasPassedOneEndpointMoreThanItsMessage(t *testing.T) {
	for hops, want := range map[uint64]string{profiles.MaxHops - 1: "", profiles.MaxHops: "unanswered"} {
		h, _ := bridged(t, slip.Answered{Line: approval, Same: true}, nil)
		a := h.join("alice")
		env := e1.Envelope{ProfileID: slip.ProfileID, MsgType: slip.TypeSLIP, MsgID: profiles.NewMsgID(), Payload: []byte(request)}
		env.Extensions = e1.AppendExtensionUvarint(e1.AppendExtension(nil, slip.ExtUCRHash, []byte(ucr.CoreHash)), profiles.ExtHops, hops)
		if err := a.session.Send(t.Context(), env); err != nil {
			t.Fatal(err)
		}
		if want != "" {
			if code := a.refused(string(env.MsgID)); code != want {
				t.Errorf("%d hops: %s", hops, code)
			}
			continue
		}
		a.gets()
	}
}
