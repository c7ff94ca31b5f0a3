package team_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/internal/agents/team"
	"github.com/slimwire/swp/internal/bridge/a2abinding"
)

// The tests of this file are the testing requirements of the extension, in their
// order.

func TestRequirement1DeclarationInTheAgentCard(t *testing.T) {
	no := false
	yes := true
	for name, test := range map[string]struct {
		about  *team.Description
		routes *bool
		told   bool
	}{
		"declared":                 {about: new(routing("a")), told: true},
		"not declared":             {about: new(basic("a"))},
		"another version":          {about: &team.Description{Card: []byte(strings.ReplaceAll(string(routing("a").Card), "/v1", "/v2"))}},
		"a longer uri":             {about: &team.Description{Card: []byte(strings.ReplaceAll(string(routing("a").Card), "/v1", "/v1/"))}},
		"a skill of that name":     {about: &team.Description{Card: []byte(`{"name":"a","skills":[{"id":"s","name":"` + team.URI + `"}]}`)}},
		"required":                 {about: &team.Description{Card: []byte(`{"capabilities":{"extensions":[{"uri":"` + team.URI + `","required":true}]}}`)}, told: true},
		"in the Handshake":         {about: &team.Description{Capabilities: []string{"k", team.URI}}, told: true},
		"not in the Handshake":     {about: &team.Description{Capabilities: []string{"k"}}},
		"configured":               {about: new(basic("a")), routes: &yes, told: true},
		"configured not to":        {about: new(routing("a")), routes: &no},
		"configured, without card": {routes: &yes, told: true},
	} {
		t.Run(name, func(t *testing.T) {
			k := &cast{t: t, scripts: map[string]script{"a": always(says("hi", ""))}, about: map[string]team.Description{}}
			if test.about != nil {
				k.about["a"] = *test.about
			}
			one := k.build(func(o *team.Options) { o.Members["a"] = team.Member{Agent: "a", Routes: test.routes} })
			if _, _, err := ask(t, one, a2abinding.SendMessage, hello); err != nil {
				t.Fatal(err)
			}
			if got := k.calls[0].told(); got != test.told {
				t.Errorf("the agent was told of the extension: %v, want %v", got, test.told)
			}
		})
	}
}

func TestRequirement2Negotiation(t *testing.T) {
	k := &cast{t: t, scripts: map[string]script{
		"a": turns(says("to b", `"b"`), says("done", `"user"`)), "b": always(says("from b", "")),
	}, about: map[string]team.Description{"a": routing("a"), "b": basic("b")}}
	one := k.build(nil)
	if _, _, err := ask(t, one, a2abinding.SendMessage, hello, "x=1", "a2a-extensions=urn:1 ,urn:2,,urn:1", "A2A-Extensions= "+team.URI+",urn:3"); err != nil {
		t.Fatal(err)
	}
	if got := k.said(); got != "a b a" {
		t.Fatalf("deliveries to %s", got)
	}
	opted := []string{"x=1", "a2a-extensions=urn:1,urn:2,urn:3," + team.URI}
	if diff := cmp.Diff(opted, k.calls[0].params); diff != "" {
		t.Errorf("to an agent that supports it:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"x=1", "a2a-extensions=urn:1,urn:2,urn:3"}, k.calls[1].params); diff != "" {
		t.Errorf("to one that does not:\n%s", diff)
	}
	if k.calls[0].hops != 3 {
		t.Errorf("hops %d, want one more than the caller's 2", k.calls[0].hops)
	}

	demanding := k.build(func(o *team.Options) {
		o.Card = []byte(`{"name":"t","capabilities":{"extensions":[{"uri":"urn:must","required":true}]}}`)
	})
	before := k.said()
	_, _, err := ask(t, demanding, a2abinding.SendMessage, hello, "a2a-extensions=urn:other")
	if f := failure(t, err); f.Code != -32008 || f.Status() != 400 || !strings.Contains(string(f.Data), "EXTENSION_SUPPORT_REQUIRED") {
		t.Errorf("failure %+v", f)
	}
	if k.said() != before {
		t.Error("an agent was sent what the team refuses")
	}
	if _, _, err = ask(t, demanding, a2abinding.SendMessage, hello, "a2a-extensions=urn:must"); err != nil {
		t.Errorf("with the extension offered: %v", err)
	}
}

func TestRequirement3MetadataInjection(t *testing.T) {
	k := &cast{t: t, scripts: map[string]script{
		"a": always(says("ask b", `"b"`)), "b": always(says("done", `"user"`)), "c": nil, "d": nil,
	}, about: map[string]team.Description{"a": routing("a"), "b": routing("b"), "c": basic("c")}} // d is away
	forged := `{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"hello", "x":9007199254740993}],"extensions":["urn:mine","` + team.URI + `","` + team.URI + `"],` +
		`"metadata":{"mine":{"a": 1.0},"` + team.URI + `":{"recipient":"b","sender":"c","handoffs":["c"]}},"unknown":[1, 2]},"tenant":"t"}`
	if _, _, err := ask(t, k.build(nil), a2abinding.SendMessage, forged); err != nil {
		t.Fatal(err)
	}
	if got := k.said(); got != "a b" {
		t.Fatalf("deliveries to %s", got)
	}
	first, second := k.calls[0], k.calls[1]
	if diff := cmp.Diff([]string{"urn:mine", team.URI}, first.message.Extensions); diff != "" {
		t.Errorf("extensions:\n%s", diff)
	}
	for _, kept := range []string{`"mine":{"a": 1.0}`, `"unknown":[1, 2]`, `"x":9007199254740993`, `"tenant":"t"`, `"messageId":"1"`} {
		if !strings.Contains(first.input, kept) {
			t.Errorf("the first agent was sent %s without %s", first.input, kept)
		}
	}
	if first.routing.Sender != "user" || second.routing.Sender != "a" {
		t.Errorf("senders %v and %v", first.routing.Sender, second.routing.Sender)
	}
	want := []map[string]any{
		{"id": "b", "name": "b", "description": "does b", "capabilities": []any{"skill of b"}, "supportsClientRouting": true},
		{"id": "c", "name": "c", "description": "does c", "capabilities": []any{}, "supportsClientRouting": false},
	}
	if diff := cmp.Diff(want, first.routing.AgentCards); diff != "" {
		t.Errorf("cards:\n%s", diff)
	}
	if got := second.peers(); got != "a c" {
		t.Errorf("the second agent was told of %s", got)
	}
	if strings.Contains(first.input+second.input, "recipient") || strings.Contains(second.input, "because") {
		t.Error("routing data of somebody else was passed on")
	}
	if !strings.Contains(second.input, `"kept":1`) || second.message.MessageID == "m" || second.message.Role != "ROLE_USER" {
		t.Errorf("the second agent was sent %s", second.input)
	}
}

func TestRequirement4ResponseParsing(t *testing.T) {
	task := func(state, more string) string {
		return `{"task":{"id":"t1","contextId":"c","status":{"state":"TASK_STATE_` + state + `"` + more + `}}`
	}
	message := func(recipient string) string {
		return strings.TrimPrefix(strings.TrimSuffix(says("working", recipient), "}"), `{"message":`)
	}
	for name, test := range map[string]struct {
		answer string // of a; b says done to the user
		said   string
		reason a2abinding.Reason
	}{
		"user":                        {says("x", `"user"`), "a", ""},
		"sender":                      {says("x", `"sender"`), "a", ""},
		"an agent":                    {says("x", `"b"`), "a b", ""},
		"object form, agent":          {says("x", `{"type":"agent","id":"b"}`), "a b", ""},
		"object form, user":           {says("x", `{"type":"user"}`), "a", ""},
		"object form, without id":     {says("x", `{"type":"agent"}`), "a", ""},
		"object form, an agent user":  {says("x", `{"type":"agent","id":"user"}`), "a", team.AgentNotFound},
		"object form, an agent named": {says("x", `{"type":"agent","id":"sender"}`), "a", team.AgentNotFound},
		"missing":                     {says("x", ""), "a", ""},
		"null":                        {says("x", `null`), "a", ""},
		"empty":                       {says("x", `""`), "a", ""},
		"of another type":             {says("x", `["b"]`), "a", ""},
		"unknown":                     {says("x", `"nobody"`), "a", team.AgentNotFound},
		"itself":                      {says("x", `"a"`), "a", team.InvalidRecipient},
		"in another spelling":         {strings.Replace(says("x", `"b"`), `"metadata"`, `"Metadata"`, 1), "a", team.AgentFailed},
		"not JSON":                    {`{`, "a", team.AgentFailed},
		"nothing":                     {`{}`, "a", team.AgentFailed},
		"no parts":                    {`{"message":{"messageId":"m","metadata":{"` + team.URI + `":{"recipient":"b"}}}}`, "a", team.EmptyInput},
		"task, message of the status": {task("COMPLETED", `,"message":`+message(`"b"`)+`}`), "a b", ""},
		"task, last agent message":    {task("COMPLETED", `},"artifacts":[{"artifactId":"r","parts":[{"text":"p"}]}],"history":[`+message(`"nobody"`)+`,`+message(`"b"`)+`,{"messageId":"u","role":"ROLE_USER"}]`), "a b", ""},
		"task that goes on":           {task("INPUT_REQUIRED", `,"message":`+message(`"b"`)+`}`), "a", ""},
		"task that failed":            {task("FAILED", `,"message":`+message(`"b"`)+`}`), "a b", ""},
		"an error":                    {`!{"code":-32005,"message":"secret"}`, "a", team.AgentFailed},
	} {
		t.Run(name, func(t *testing.T) {
			k := &cast{t: t, scripts: map[string]script{"a": always(test.answer), "b": always(says("done", `"user"`))},
				about: map[string]team.Description{"a": routing("a"), "b": routing("b")}}
			output, _, err := ask(t, k.build(nil), a2abinding.SendMessage, hello)
			switch {
			case test.reason != "":
				wantReason(t, err, test.reason)
			case err != nil:
				t.Fatal(err)
			case strings.Contains(output, team.URI):
				t.Errorf("the caller is told %s", output)
			}
			if got := k.said(); got != test.said {
				t.Errorf("deliveries to %s, want %s", got, test.said)
			}
		})
	}

	t.Run("handoffs hold for one hop", func(t *testing.T) {
		k := &cast{t: t, scripts: map[string]script{
			"a": always(strings.Replace(says("x", `"b"`), `"more":{}`, `"handoffs":["c","nobody"]`, 1)),
			"b": always(says("x", `"c"`)), "c": always(says("x", `"user"`)),
		}, about: map[string]team.Description{"a": routing("a"), "b": routing("b"), "c": routing("c")}}
		if _, _, err := ask(t, k.build(nil), a2abinding.SendMessage, hello); err != nil {
			t.Fatal(err)
		}
		var told []string
		for _, c := range k.calls {
			told = append(told, c.peers())
		}
		if diff := cmp.Diff([]string{"b c", "c", "a b"}, told); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("the final message of a stream", func(t *testing.T) {
		k := &cast{t: t, scripts: map[string]script{
			"a": always(
				task("WORKING", `,"message":`+message(`"nobody"`)+`}`),
				`{"artifactUpdate":{"taskId":"t1","contextId":"c2","artifact":{"artifactId":"r","parts":[{"text":"one"}]}}}`,
				`{"artifactUpdate":{"taskId":"t1","contextId":"c2","append":true,"artifact":{"artifactId":"r","parts":[{"text":"two"}]}}}`,
				`{"statusUpdate":{"taskId":"t1","contextId":"c2","status":{"state":"TASK_STATE_COMPLETED","message":`+message(`"b"`)+`}}}`),
			"b": always(`{"message":{"messageId":"n","parts":[{"text":"end"}]}}`),
		}, about: map[string]team.Description{"a": routing("a"), "b": basic("b")}}
		one := k.build(func(o *team.Options) { o.BasicReply = team.ToUser })
		_, events, err := ask(t, one, a2abinding.SendStreamingMessage, hello)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{`{"message":{"messageId":"n","parts":[{"text":"end"}]}}`}, events); diff != "" {
			t.Errorf("the caller:\n%s", diff)
		}
		if got := string(k.calls[1].message.Parts); got != `[{"text":"working"},{"text":"one"},{"text":"two"}]` {
			t.Errorf("parts %s", got)
		}
		if k.calls[1].message.ContextID != "c" || k.calls[1].message.TaskID != "" {
			t.Errorf("the next agent was sent %s", k.calls[1].input)
		}
	})
}

func TestRequirement5BackToSender(t *testing.T) {
	about := map[string]team.Description{"a": routing("a"), "b": routing("b")}
	t.Run("the user", func(t *testing.T) {
		k := &cast{t: t, scripts: map[string]script{"a": always(says("x", `"sender"`))}, about: about}
		output, _, err := ask(t, k.build(nil), a2abinding.SendMessage, hello)
		if err != nil || !strings.Contains(output, `"x"`) || k.said() != "a" {
			t.Errorf("deliveries to %s, %s, %v", k.said(), output, err)
		}
	})
	t.Run("an agent", func(t *testing.T) {
		k := &cast{t: t, scripts: map[string]script{
			"a": turns(says("ask", `"b"`), says("thanks", `"user"`)), "b": always(says("answer", `"sender"`)),
		}, about: about}
		if _, _, err := ask(t, k.build(nil), a2abinding.SendMessage, hello); err != nil {
			t.Fatal(err)
		}
		if k.said() != "a b a" || k.calls[2].routing.Sender != "b" || string(k.calls[2].message.Parts) != `[{"text":"answer"}]` {
			t.Errorf("deliveries to %s, the last from %v: %s", k.said(), k.calls[2].routing.Sender, k.calls[2].message.Parts)
		}
	})
	t.Run("each to the other, to the bound", func(t *testing.T) {
		k := &cast{t: t, scripts: map[string]script{"a": turns(says("x", `"b"`), says("x", `"sender"`)), "b": always(says("x", `"sender"`))}, about: about}
		_, _, err := ask(t, k.build(func(o *team.Options) { o.MaxHops = 5 }), a2abinding.SendMessage, hello)
		wantReason(t, err, team.HopLimit)
		if got := k.said(); got != "a b a b a" {
			t.Errorf("deliveries to %s", got)
		}
	})
	t.Run("two at once", func(t *testing.T) {
		// Both are at a before either goes on.
		var both sync.WaitGroup
		both.Add(2)
		k := &cast{t: t, about: about}
		k.scripts = map[string]script{
			"a": func(c *call) []string {
				if c.routing.Sender != "user" {
					return []string{says("from "+c.message.ContextID, `"user"`)}
				}
				both.Done()
				both.Wait()
				if c.message.ContextID == "one" {
					return []string{says("x", `"sender"`)}
				}
				return []string{says("x", `"b"`)}
			},
			"b": always(says("x", `"sender"`)),
		}
		one := k.build(nil)
		var work sync.WaitGroup
		for context, want := range map[string]string{"one": `"x"`, "two": `"from two"`} {
			work.Go(func() {
				output, _, err := ask(t, one, a2abinding.SendMessage, strings.Replace(hello, `"c"`, `"`+context+`"`, 1))
				if err != nil || !strings.Contains(output, want) {
					t.Errorf("%s: %s, %v", context, output, err)
				}
			})
		}
		work.Wait()
	})
}

func TestRequirement6MixedTeams(t *testing.T) {
	about := map[string]team.Description{"a": routing("a"), "b": basic("b")}
	t.Run("a worker without the extension", func(t *testing.T) {
		k := &cast{t: t, scripts: map[string]script{
			"a": turns(says("work", `"b"`), says("done", `"user"`)), "b": always(says("result", `"nobody"`)),
		}, about: about}
		output, _, err := ask(t, k.build(nil), a2abinding.SendMessage, hello)
		if err != nil || !strings.Contains(output, "done") || k.said() != "a b a" {
			t.Fatalf("deliveries to %s, %s, %v", k.said(), output, err)
		}
		if k.calls[1].told() {
			t.Errorf("the worker was sent %q %s", k.calls[1].params, k.calls[1].input)
		}
		if k.calls[2].routing.Sender != "b" {
			t.Errorf("the default agent was told of sender %v", k.calls[2].routing.Sender)
		}
	})
	t.Run("its answer to the user", func(t *testing.T) {
		k := &cast{t: t, scripts: map[string]script{"a": always(says("work", `"b"`)), "b": always(says("result", ""))}, about: about}
		output, _, err := ask(t, k.build(func(o *team.Options) { o.BasicReply = team.ToUser }), a2abinding.SendMessage, hello)
		if err != nil || output != says("result", "") || k.said() != "a b" {
			t.Errorf("deliveries to %s, %s, %v", k.said(), output, err)
		}
	})
	t.Run("an agent with it that does not decide", func(t *testing.T) {
		k := &cast{t: t, scripts: map[string]script{
			"a": turns(says("work", `"c"`), says("done", "")), "c": always(says("result", "")),
		}, about: map[string]team.Description{"a": routing("a"), "c": routing("c")}}
		output, _, err := ask(t, k.build(nil), a2abinding.SendMessage, hello)
		if err != nil || output != says("done", "") || k.said() != "a c a" {
			t.Errorf("deliveries to %s, %s, %v", k.said(), output, err)
		}
	})
	t.Run("nobody has it", func(t *testing.T) {
		k := &cast{t: t, scripts: map[string]script{"a": always(says("hi", "")), "b": nil}, about: map[string]team.Description{"a": basic("a"), "b": basic("b")}}
		output, _, err := ask(t, k.build(nil), a2abinding.SendMessage, hello, "a2a-extensions="+team.URI)
		if err != nil || output != says("hi", "") || k.said() != "a" {
			t.Fatalf("deliveries to %s, %s, %v", k.said(), output, err)
		}
		var want, got any
		if json.Unmarshal([]byte(hello), &want) != nil || json.Unmarshal([]byte(k.calls[0].input), &got) != nil {
			t.Fatal("no JSON")
		}
		if diff := cmp.Diff(want, got); diff != "" || slices.ContainsFunc(k.calls[0].params, func(p string) bool { return strings.Contains(p, "extensions") }) {
			t.Errorf("the agent was sent something else, with %q:\n%s", k.calls[0].params, diff)
		}
	})
	t.Run("routing data goes to a caller that asks for it", func(t *testing.T) {
		k := &cast{t: t, scripts: map[string]script{"a": always(says("hi", `"user"`))}, about: about}
		output, _, err := ask(t, k.build(nil), a2abinding.SendMessage, hello, "a2a-extensions="+team.URI)
		if err != nil || output != says("hi", `"user"`) {
			t.Errorf("%s, %v", output, err)
		}
	})
}
