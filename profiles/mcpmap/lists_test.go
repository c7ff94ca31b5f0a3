package mcpmap_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// Would implements profiles.Forecaster: what is listed is no question that was decided.
func (r *rules) Would(identity, profile, operation, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return profile == "mcp" && slices.Contains(r.allow, identity+" "+operation+" "+name)
}

// WouldSome implements profiles.Surveyor.
func (r *rules) WouldSome(identity, profile, operation, beginning string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return profile == "mcp" && slices.ContainsFunc(r.allow, func(s string) bool {
		return strings.HasPrefix(s, identity+" "+operation+" "+beginning)
	})
}

func (r *rules) set(allow ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.allow = allow
}

// answered returns what a request is answered with when the server answers so.
func (l *link) answered(call *mcpmap.Call, exchanges <-chan *mcpmap.Exchange, result string) string {
	l.t.Helper()
	done := l.do(call)
	(<-exchanges).Finish(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":7,"result":%s}`, result))
	out := <-done
	if out.err != nil {
		l.t.Fatal(out.err)
	}
	return string(out.Octets)
}

const twoTools = `{"tools":[{"name":"read"},{"name":"write"}],"nextCursor":"2"}`

func TestListsShowWhatThePeerMayUse(t *testing.T) {
	guarded(t, func(t *testing.T, l *link, r *rules) {
		id, conv := l.initialize(mcpmap.Events{})
		r.questions()
		for _, tt := range []struct{ method, result, want string }{
			{"tools/list", twoTools, `{"tools":[{"name":"read"}],"nextCursor":"2","cacheScope":"private"}`},
			{"tools/list", `{"tools":[{"name":"read"}]}`, `{"tools":[{"name":"read"}]}`},
			{"resources/list", `{"resources":[{"uri":"a"},{"uri":"b"}]}`, `{"resources":[],"cacheScope":"private"}`},
			{"resources/templates/list", `{"resourceTemplates":[{"name":"read"}],"nextCursor":"a"}`, `{"resourceTemplates":[],"nextCursor":"a","cacheScope":"private"}`},
			{"prompts/list", `{"prompts":[{"name":"a"},{"name":"b"}]}`, `{"prompts":[{"name":"a"},{"name":"b"}]}`},
			{"tools\\/list", twoTools, `{"tools":[{"name":"read"}],"nextCursor":"2","cacheScope":"private"}`},
		} {
			want := `{"jsonrpc":"2.0","id":7,"result":` + tt.want + `}`
			request := func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), `\\`, `\`)) }
			if got := l.answered(&mcpmap.Call{Target: "one", Octets: request(modern("7", tt.method))}, l.server.modern, tt.result); got != want {
				t.Errorf("%s: %s, want %s", tt.method, got, want)
			}
			if got := l.answered(&mcpmap.Call{Session: id, Octets: request(legacy("7", tt.method))}, conv.requests, tt.result); got != want {
				t.Errorf("%s in a session: %s, want %s", tt.method, got, want)
			}
		}
		for asked := range strings.SplitSeq(r.questions(), ", ") {
			if !strings.HasSuffix(asked, "/list one") {
				t.Errorf("a forecast was decided, and so would be audited: %s", asked)
			}
		}
		for _, result := range []string{`1`, `{"tools":{}}`, `{"tools":[],"TOOLS":[]}`} {
			got := l.answered(&mcpmap.Call{Target: "one", Octets: modern("7", "tools/list")}, l.server.modern, result)
			if !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,`) || !strings.Contains(got, "ERR_INTERNAL_ERROR") {
				t.Errorf("%s: %s, want an error", result, got)
			}
		}
		// What is no list is nobody's business.
		if got := l.answered(&mcpmap.Call{Target: "one", Octets: modern("7", "completion/complete")}, l.server.modern, twoTools); !strings.Contains(got, twoTools) {
			t.Errorf("another method: %s", got)
		}
	}, "alice initialize one", "alice tools/list one", "alice resources/list one", "alice resources/templates/list one", "alice prompts/list one",
		"alice completion/complete one", "alice tools/call one/read", "alice prompts/get one", "alice resources/read two", "alice tools/call two/write")
}

func TestListsAreUntouchedWithoutRules(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		odd := `{ "tools":[1,{"name":"a","Name":"b"}],"tools":{}}`
		if got, want := l.answered(&mcpmap.Call{Target: "one", Octets: modern("7", "tools/list")}, l.server.modern, odd), `{"jsonrpc":"2.0","id":7,"result":`+odd+`}`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

func TestChangesAreToldOfWhatIsSeen(t *testing.T) {
	guarded(t, func(t *testing.T, l *link, _ *rules) {
		var heard []string
		events := mcpmap.Events{Notification: func(b []byte) { heard = append(heard, string(b)) }}
		_, conv := l.initialize(events)
		done := l.do(&mcpmap.Call{Target: "one", Octets: modern("7", mcpmap.MethodListen), Events: events})
		x := <-l.server.modern
		for _, tt := range []struct {
			method string
			told   bool
		}{
			{"notifications/tools/list_changed", true},
			{"notifications/prompts/list_changed", false}, // they may be listed, and none be got
			{"notifications/prompts\\/list\\u005fchanged", false},
			{"notifications/resources/list_changed", false}, // they may be read, and not be listed
			{"notifications/resources/updated", true},
			{"notifications/message", true},
		} {
			heard = nil
			octets := `{"jsonrpc":"2.0","method":"` + tt.method + `"}`
			conv.client.Notify([]byte(octets))
			synctest.Wait()
			x.Notify([]byte(octets))
			synctest.Wait()
			if told := slices.Equal(heard, []string{octets, octets}); told != tt.told || !told && len(heard) > 0 {
				t.Errorf("%s: heard %q", tt.method, heard)
			}
		}
		x.Finish([]byte(`{"jsonrpc":"2.0","id":7,"result":{}}`))
		<-done
		want(t, "dropped", l.served.Stats().Dropped, 0)
	}, "alice initialize one", "alice subscriptions/listen one", "alice tools/list one", "alice tools/call one/read", "alice prompts/list one",
		"alice resources/read one")
}

func TestRulesThatChangeAreToldOf(t *testing.T) {
	guarded(t, func(t *testing.T, l *link, r *rules) {
		var session, subscription []string
		into := func(list *[]string) mcpmap.Events {
			return mcpmap.Events{Notification: func(b []byte) { *list = append(*list, string(b)) }}
		}
		done := l.do(&mcpmap.Call{Target: "one", Octets: legacy("0", "initialize"), Events: into(&session)})
		conv := <-l.server.opened
		(<-conv.requests).Finish([]byte(`{"jsonrpc":"2.0","id":0,"result":{"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":false},"resources":{"listChanged":true}}}}`))
		opened := <-done
		listening := l.do(&mcpmap.Call{Target: "one", Octets: modern("1.0", mcpmap.MethodListen), Events: into(&subscription)})
		x := <-l.server.modern
		change := func(identity, server string) {
			l.served.RulesChanged(func(i, s string) bool { return i == identity && s == server })
			synctest.Wait()
		}
		change("alice", "one")
		if len(session)+len(subscription) > 0 {
			t.Errorf("told before it was agreed: %q, %q", session, subscription)
		}
		l.notify(opened.Session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		<-conv.notes
		x.Notify([]byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true,"promptsListChanged":true}}}`))
		synctest.Wait()
		subscription = nil
		change("bob", "one")
		change("alice", "two")
		if len(session)+len(subscription) > 0 {
			t.Errorf("told of rules for others: %q, %q", session, subscription)
		}
		r.set("alice tools/list one") // resources and prompts can no longer be asked for
		change("alice", "one")
		if want := []string{`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`}; !slices.Equal(session, want) {
			t.Errorf("in the session %q, want %q", session, want)
		}
		if want := []string{`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1.0}}}`}; !slices.Equal(subscription, want) {
			t.Errorf("for the subscription %q, want %q", subscription, want)
		}
		x.Finish([]byte(`{"jsonrpc":"2.0","id":1.0,"result":{}}`))
		<-listening
		change("alice", "one") // an exchange that is over is told nothing
		want(t, "told in the end", len(subscription), 1)
	}, "alice initialize one", "alice notifications/initialized one", "alice subscriptions/listen one", "alice tools/list one", "alice prompts/list one",
		"alice resources/list one")
}

// An Access that cannot foretell is asked, and nothing is known of what is below.
func TestAccessThatCannotForetellIsAsked(t *testing.T) {
	var asked []string
	a := decider(func(_, _, operation, name string) bool {
		asked = append(asked, operation+" "+name)
		return false
	})
	want(t, "would", profiles.Would(a, "i", "mcp", "o", "n"), false)
	want(t, "would some", profiles.WouldSome(a, "i", "mcp", "o", "n"), true)
	want(t, "asked", strings.Join(asked, ","), "o n")
}

type decider func(identity, profile, operation, name string) bool

func (d decider) Allowed(identity, profile, operation, name string) bool {
	return d(identity, profile, operation, name)
}
