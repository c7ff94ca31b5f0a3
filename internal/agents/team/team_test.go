package team_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/internal/agents/team"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
)

func TestNewRefusesWhatCouldNotRoute(t *testing.T) {
	k := &cast{t: t}
	members := func(n int) map[string]team.Member {
		list := make(map[string]team.Member)
		for i := range n {
			list[fmt.Sprintf("m%d", i)] = team.Member{Agent: "x"}
		}
		return list
	}
	for name, test := range map[string]struct {
		edit func(*team.Options)
		want string // empty: it is taken
	}{
		"good":                   {func(*team.Options) {}, ""},
		"as many as may be":      {func(o *team.Options) { o.Members = members(team.MaxMembers) }, ""},
		"one more":               {func(o *team.Options) { o.Members = members(team.MaxMembers + 1) }, "65 members"},
		"nobody":                 {func(o *team.Options) { o.Members = nil }, "0 members"},
		"no default":             {func(o *team.Options) { o.Default = "" }, `default agent ""`},
		"another default":        {func(o *team.Options) { o.Default = "x" }, `default agent "x"`},
		"a member named user":    {func(o *team.Options) { o.Members["user"] = team.Member{Agent: "x"} }, `member "user"`},
		"a member named sender":  {func(o *team.Options) { o.Members["sender"] = team.Member{Agent: "x"} }, `member "sender"`},
		"a member without name":  {func(o *team.Options) { o.Members[""] = team.Member{Agent: "x"} }, `member ""`},
		"a member without agent": {func(o *team.Options) { o.Members["m0"] = team.Member{} }, `member "m0": no agent`},
		"no name":                {func(o *team.Options) { o.Name = "" }, "want a name"},
		"a name with a slash":    {func(o *team.Options) { o.Name = "a/b" }, "want a name"},
		"hops below 1":           {func(o *team.Options) { o.MaxHops = -1 }, "below 1"},
		"another basic reply":    {func(o *team.Options) { o.BasicReply = "nobody" }, "basic reply"},
		"another form":           {func(o *team.Options) { o.Members["m0"] = team.Member{Agent: "x", Form: "xml"} }, "form"},
		"a card that is none":    {func(o *team.Options) { o.Card = []byte("[]") }, "card"},
		"no records":             {func(o *team.Options) { o.Records = nil }, "required"},
		"itself":                 {func(o *team.Options) { o.Members["m0"] = team.Member{Agent: "team"} }, `contains itself: team > team`},
	} {
		o := team.Options{Name: "team", Members: members(1), Default: "m0", Agents: k, Records: records(t)}
		test.edit(&o)
		_, err := team.New(o)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
	one := func(name, member string) team.Options {
		return team.Options{Name: name, Members: map[string]team.Member{"m": {Agent: member}}, Default: "m", Agents: k, Records: records(t)}
	}
	if _, err := team.New(one("a", "b"), one("b", "c"), one("c", "b")); err == nil || !strings.Contains(err.Error(), "b > c > b") {
		t.Errorf("error %v", err)
	}
	if _, err := team.New(one("a", "x"), one("a", "y")); err == nil {
		t.Error("two teams of one name are taken")
	}
}

func TestTheHopLimitStopsEveryLoop(t *testing.T) {
	about := map[string]team.Description{"a": routing("a"), "b": routing("b"), "c": basic("c")}
	for name, test := range map[string]struct {
		a, b  string // recipients
		limit int
		said  string
	}{
		"a chain":                 {`"b"`, `"c"`, 2, "a b"},
		"two that agree":          {`"b"`, `"a"`, 3, "a b a"},
		"one that never decides":  {`"b"`, "", 4, "a b a b"},
		"a worker":                {`"c"`, "", 5, "a c a c a"},
		"one delivery":            {`"b"`, "", 1, "a"},
		"without a limit of ones": {`"b"`, `"a"`, 0, "a b a b a b a b a b"},
	} {
		for _, operation := range []string{a2abinding.SendMessage, a2abinding.SendStreamingMessage} {
			k := &cast{t: t, scripts: map[string]script{"a": always(says("x", test.a)), "b": always(says("x", test.b)), "c": always(says("x", ""))}, about: about}
			_, events, err := ask(t, k.build(func(o *team.Options) { o.MaxHops = test.limit }), operation, hello)
			wantReason(t, err, team.HopLimit)
			if k.said() != test.said || len(events) > 0 {
				t.Errorf("%s, %s: deliveries to %s, want %s; the caller got %q", name, operation, k.said(), test.said, events)
			}
		}
	}
}

func TestTeamsWithinTeamsShareTheHops(t *testing.T) {
	about := map[string]team.Description{"a": routing("a"), "b": routing("b")}
	for limit, want := range map[int]string{3: "a b", 4: "a b a"} {
		k := &cast{t: t, about: about, scripts: map[string]script{"a": turns(says("x", `"inner"`), says("done", `"user"`)), "b": always(says("from within", `"user"`))}}
		inner := team.Options{Name: "inner", Members: map[string]team.Member{"b": {Agent: "b"}}, Default: "b", Agents: k, Records: records(t)}
		outer := team.Options{
			Name: "outer", Members: map[string]team.Member{"a": {Agent: "a"}, "inner": {Agent: "inner"}}, Default: "a",
			MaxHops: limit, Agents: k, Records: records(t),
		}
		teams, err := team.New(outer, inner)
		if err != nil {
			t.Fatal(err)
		}
		output, _, err := ask(t, teams["outer"], a2abinding.SendMessage, hello)
		if k.said() != want {
			t.Errorf("limit %d: deliveries to %s, want %s", limit, k.said(), want)
		}
		if limit == 3 { // a, inner, b within it, and then a again
			wantReason(t, err, team.HopLimit)
		} else if err != nil || !strings.Contains(output, "done") {
			t.Errorf("limit %d: %s, %v", limit, output, err)
		}
		if got := k.calls[0].peers(); got != "inner" {
			t.Errorf("a was told of %s", got)
		}
	}
}

func TestATaskOfATeamWithinATeamIsFollowed(t *testing.T) {
	k := &cast{t: t, about: map[string]team.Description{"b": routing("b")}}
	k.scripts = map[string]script{"b": func(c *call) []string {
		if c.kind == "a2a/1.0/CancelTask" {
			return []string{`!{"code":-32002,"message":"not now"}`}
		}
		return []string{waiting}
	}}
	db := records(t)
	one := func(name, id, agent string) team.Options {
		return team.Options{Name: name, Members: map[string]team.Member{id: {Agent: agent}}, Default: id, Agents: k, Records: db}
	}
	teams, err := team.New(one("outer", "i", "inner"), one("inner", "b", "b"))
	if err != nil {
		t.Fatal(err)
	}
	_, events, err := ask(t, teams["outer"], a2abinding.SendStreamingMessage, hello)
	if err != nil || len(events) != 1 || events[0] != waiting {
		t.Fatalf("%q, %v", events, err)
	}
	_, _, err = ask(t, teams["outer"], a2abinding.CancelTask, `{"id":"t1"}`)
	if f := failure(t, err); f.Code != -32002 || f.Message != "not now" {
		t.Errorf("%+v", f)
	}
}

func TestAStreamIsPassedOnAsItComesWhereItsEndIsClear(t *testing.T) {
	said := []string{
		` {"task":{"id":"t1","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`,
		`{"artifactUpdate":{"taskId":"t1","contextId":"c", "artifact":{"artifactId":"r","parts":[{"text":"` + strings.Repeat("x", 5000) + `"}]}}}`,
		`{"statusUpdate":{"taskId":"t1","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}`,
	}
	k := &cast{t: t, scripts: map[string]script{"a": always(said...)}, about: map[string]team.Description{"a": basic("a")}}
	_, events, err := ask(t, k.build(func(o *team.Options) { o.Held = 100 }), a2abinding.SendStreamingMessage, hello)
	if diff := cmp.Diff(said, events); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestWhatIsHeldBackIsBounded(t *testing.T) {
	said := []string{says("x", `"user"`)}
	for _, spare := range []int{0, -1} {
		k := &cast{t: t, scripts: map[string]script{"a": always(said...)}, about: map[string]team.Description{"a": routing("a")}}
		_, events, err := ask(t, k.build(func(o *team.Options) { o.Held = len(said[0]) + spare }), a2abinding.SendStreamingMessage, hello)
		if spare == 0 && (err != nil || len(events) != 1) {
			t.Errorf("at the bound: %q, %v", events, err)
		}
		if spare < 0 {
			wantReason(t, err, a2abinding.TooLarge)
		}
	}
	for _, events := range []int{4096, 4097} {
		list := append(make([]string, 0, events), waiting)
		for len(list) < events {
			list = append(list, `{"statusUpdate":{"taskId":"t1","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`)
		}
		k := &cast{t: t, scripts: map[string]script{"a": always(list...)}, about: map[string]team.Description{"a": routing("a")}}
		_, got, err := ask(t, k.build(nil), a2abinding.SendStreamingMessage, hello)
		if ok := events == 4096; (err == nil) != ok || ok && len(got) != events {
			t.Errorf("%d events: %d, %v", events, len(got), err)
		}
	}
}

func TestWhatAgentsSayOfThemselvesIsCut(t *testing.T) {
	long := strings.Repeat("é", 5000)
	skills := strings.TrimSuffix(strings.Repeat(`{"id":"s","name":"`+strings.Repeat("é", 100)+`"},`, 40), ",")
	k := &cast{t: t, scripts: map[string]script{"a": always(says("x", "")), "b": nil}, about: map[string]team.Description{
		"a": routing("a"), "b": {Card: []byte(`{"name":"` + long + `","description":"` + long + `","skills":[` + skills + `]}`)},
	}}
	if _, _, err := ask(t, k.build(nil), a2abinding.SendMessage, hello); err != nil {
		t.Fatal(err)
	}
	card := k.calls[0].routing.AgentCards[0]
	for name, limit := range map[string]int{"name": 128, "description": 512} {
		if s, _ := card[name].(string); len(s) != limit || !utf8.ValidString(s) {
			t.Errorf("%s has %d octets, want %d", name, len(s), limit)
		}
	}
	if list, _ := card["capabilities"].([]any); len(list) != 16 || len(fmt.Sprint(list[0])) != 64 {
		t.Errorf("capabilities %v", list)
	}

	// Above the bound of all of it together descriptions go first, then capabilities.
	all := len(k.calls[0].message.Metadata[team.URI])
	for limit, want := range map[int]string{all: "512 16", all - 1: "0 16", all - 512: "0 16", all - 513: "0 0"} {
		if _, _, err := ask(t, k.build(func(o *team.Options) { o.Context = limit }), a2abinding.SendMessage, hello); err != nil {
			t.Fatal(err)
		}
		last := k.calls[len(k.calls)-1]
		card := last.routing.AgentCards[0]
		list, _ := card["capabilities"].([]any)
		if got := fmt.Sprint(len(fmt.Sprint(card["description"])), len(list)); got != want || len(last.message.Metadata[team.URI]) > limit {
			t.Errorf("within %d: %s, want %s, in %d octets", limit, got, want, len(last.message.Metadata[team.URI]))
		}
	}
}

func TestSendersAreWrittenInTheFormOfTheMember(t *testing.T) {
	k := &cast{t: t, scripts: map[string]script{"a": always(says("x", `{"type":"agent","id":"b"}`)), "b": always(says("x", `{"type":"user"}`))},
		about: map[string]team.Description{"a": routing("a"), "b": routing("b")}}
	one := k.build(func(o *team.Options) {
		for id := range o.Members {
			o.Members[id] = team.Member{Agent: id, Form: team.FormObject}
		}
	})
	if _, _, err := ask(t, one, a2abinding.SendMessage, hello); err != nil {
		t.Fatal(err)
	}
	want := []any{map[string]any{"type": "user"}, map[string]any{"type": "agent", "id": "a"}}
	if diff := cmp.Diff(want, []any{k.calls[0].routing.Sender, k.calls[1].routing.Sender}); diff != "" {
		t.Error(diff)
	}
}

func TestMembersAreDescribedAnewAfterAWhileAndAfterErrors(t *testing.T) {
	now := time.Now()
	k := &cast{t: t, scripts: map[string]script{"a": turns(says("x", ""), says("x", ""), `!{}`, says("x", ""))}, about: map[string]team.Description{"a": routing("a")}}
	one := k.build(func(o *team.Options) { o.Refresh, o.Now = time.Minute, func() time.Time { return now } })
	var described []int
	for range 4 {
		_, _, _ = ask(t, one, a2abinding.SendMessage, hello)
		described = append(described, k.described["a"])
		now = now.Add(30 * time.Second)
	}
	// first; still good; too old; anew after the error of the third
	if diff := cmp.Diff([]int{1, 1, 2, 3}, described); diff != "" {
		t.Error(diff)
	}
}

func TestAMemberThatIsAwayFailsItsHopAndIsNotListed(t *testing.T) {
	k := &cast{t: t, scripts: map[string]script{"a": always(says("x", `"b"`)), "b": always(says("x", ""))}, about: map[string]team.Description{"a": routing("a")}}
	var hops []team.Hop
	one := k.build(func(o *team.Options) { o.Observe = func(h team.Hop) { hops = append(hops, h) } })
	_, _, err := ask(t, one, a2abinding.SendMessage, hello)
	wantReason(t, err, team.AgentFailed)
	if k.said() != "a" || k.calls[0].peers() != "" {
		t.Errorf("deliveries to %s, the first was told of %q", k.said(), k.calls[0].peers())
	}
	if len(hops) != 2 || hops[0].Next != "b" || hops[0].Reason != "because" || hops[1].Err == nil || hops[1].N != 2 || hops[1].Sender != "a" {
		t.Errorf("observed %+v", hops)
	}
}

func TestTheCardHasTheSkillsOfAll(t *testing.T) {
	k := &cast{t: t, scripts: map[string]script{"a": nil, "b": nil, "c": nil}, about: map[string]team.Description{
		"a": routing("a"), "b": {Capabilities: []string{"k", team.URI}},
	}}
	octets, err := k.build(func(o *team.Options) { o.Title, o.Text = "T", "x" }).Card(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var card struct {
		Name, Description, Version string
		SupportedInterfaces        []struct{ URL, ProtocolBinding, ProtocolVersion string }
		Capabilities               map[string]any
		Skills                     []struct {
			ID, Name string
			Tags     []string
		}
	}
	if err := json.Unmarshal(octets, &card); err != nil {
		t.Fatal(err)
	}
	if card.Name != "T" || card.Description != "x" || len(card.SupportedInterfaces) != 1 || card.SupportedInterfaces[0].ProtocolBinding != a2abinding.URI {
		t.Errorf("card %s", octets)
	}
	if len(card.Skills) != 2 || card.Skills[0].ID != "a/s" || card.Skills[1].ID != "b/k" || card.Capabilities["extensions"] != nil {
		t.Errorf("card %s", octets)
	}
	own := []byte(`{ "name":"own"}`)
	if octets, err = k.build(func(o *team.Options) { o.Card = own }).Card(context.Background()); err != nil || string(octets) != string(own) {
		t.Errorf("card %s, %v", octets, err)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(says("x", `"b"`)))
	f.Add([]byte(waiting))
	f.Add([]byte(`{"task":{"id":"t","status":{"state":"TASK_STATE_COMPLETED","message":{"metadata":{"` + team.URI + `":{"recipient":{"type":"agent","id":"b"}}}}},"history":[{"role":"ROLE_AGENT","extensions":["` + team.URI + `"]}],"artifacts":[{"artifactId":"r","parts":[{}]}]}}`))
	db := records(f)
	f.Fuzz(func(t *testing.T, octets []byte) {
		if strings.HasPrefix(string(octets), "!") {
			return
		}
		k := &cast{t: t, scripts: map[string]script{"a": always(string(octets)), "b": always(says("x", ""))}, about: map[string]team.Description{"a": routing("a"), "b": routing("b")}}
		for _, operation := range []string{a2abinding.SendMessage, a2abinding.SendStreamingMessage} {
			output, events, err := ask(t, k.build(func(o *team.Options) { o.Records = db }), operation, hello)
			if err != nil {
				failure(t, err) // and none that is not for callers
				continue
			}
			for _, told := range append(events, output) {
				if told != "" && !json.Valid([]byte(told)) {
					t.Errorf("the caller is told %q", told)
				}
			}
		}
	})
}

// A member names only members to which it may send, and learns of no others. Answers go to the
// sender and to the caller all the same.
func TestAMemberSendsOnlyToMembersToWhichItMay(t *testing.T) {
	for name, test := range map[string]struct {
		sends  []string // of b, which a asks
		answer string   // of b: the recipient
		said   string
		peers  string // of which b is told
		reason a2abinding.Reason
	}{
		"not limited":   {nil, `"c"`, "a b c", "a c", ""},
		"one of them":   {[]string{"c"}, `"c"`, "a b c", "c", ""},
		"another":       {[]string{"d"}, `"c"`, "a b", "d", team.RecipientDenied},
		"none":          {[]string{}, `"c"`, "a b", "", team.RecipientDenied},
		"the sender":    {[]string{}, `"sender"`, "a b a", "", ""},
		"it by its id":  {[]string{}, `"a"`, "a b a", "", ""},
		"the caller":    {[]string{}, `"user"`, "a b", "", ""},
		"no recipient":  {[]string{}, "", "a b a", "", ""},
		"nobody at all": {[]string{}, `"x"`, "a b", "", team.AgentNotFound},
	} {
		k := &cast{t: t, scripts: map[string]script{
			"a": turns(says("to b", `"b"`), says("done", `"user"`)), "b": always(says("from b", test.answer)),
			"c": always(says("done", `"user"`)), "d": nil,
		}, about: map[string]team.Description{"a": routing("a"), "b": routing("b"), "c": routing("c"), "d": routing("d")}}
		one := k.build(func(o *team.Options) {
			if o.Members["b"] = (team.Member{Agent: "b", Sends: test.sends}); test.sends == nil {
				delete(o.Members, "d")
			}
		})
		_, _, err := ask(t, one, a2abinding.SendMessage, hello)
		if test.reason != "" {
			wantReason(t, err, test.reason)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if k.said() != test.said {
			t.Errorf("%s: deliveries to %s, want %s", name, k.said(), test.said)
		} else if got := k.calls[1].peers(); got != test.peers {
			t.Errorf("%s: the member was told of %q, want %q", name, got, test.peers)
		}
	}
	for _, sends := range [][]string{{"x"}, {"a"}, {""}, {"user"}} {
		_, err := team.New(team.Options{
			Name: "t", Default: "a", Members: map[string]team.Member{"a": {Agent: "a", Sends: sends}, "b": {Agent: "b"}}, Agents: &cast{t: t}, Records: records(t),
		})
		if err == nil || !strings.Contains(err.Error(), "no other member") {
			t.Errorf("sends %q: %v", sends, err)
		}
	}
}

// A member that refuses the caller's own message by the rules of an extension, such as SLIP, is
// heard by the caller. What it thinks of a message of another agent is not the caller's fault.
func TestARefusalByAnExtensionOfTheCallersMessageReachesTheCaller(t *testing.T) {
	const refusal = `{"code":-32602,"message":"unknown_anchor: no anchor Nod","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"INVALID_PARAMS","domain":"a2a-protocol.org","metadata":{"extension":"urn:slip","class":"unknown_anchor"}}]}`
	const plain = `{"code":-32602,"message":"secret","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"INVALID_PARAMS","domain":"a2a-protocol.org"}]}`
	for _, operation := range []string{a2abinding.SendMessage, a2abinding.SendStreamingMessage} {
		k := &cast{t: t, scripts: map[string]script{"a": always("!" + refusal)}, about: map[string]team.Description{"a": basic("a")}}
		_, _, err := ask(t, k.build(nil), operation, hello)
		if f := failure(t, err); f.Code != a2abinding.CodeInvalidParams || f.Status() != 400 || !strings.Contains(string(f.Append(nil)), `"class":"unknown_anchor"`) {
			t.Errorf("%s: %s", operation, f.Append(nil))
		}
	}
	k := &cast{t: t, scripts: map[string]script{"a": always("!" + plain)}, about: map[string]team.Description{"a": basic("a")}}
	_, _, err := ask(t, k.build(nil), a2abinding.SendMessage, hello)
	wantReason(t, err, team.AgentFailed)

	k = &cast{t: t, scripts: map[string]script{"a": always(says("to b", `"b"`)), "b": always("!" + refusal)},
		about: map[string]team.Description{"a": routing("a"), "b": basic("b")}}
	_, _, err = ask(t, k.build(nil), a2abinding.SendMessage, hello)
	wantReason(t, err, team.AgentFailed)
}
