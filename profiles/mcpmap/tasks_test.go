package mcpmap_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/profiles/mcpmap"
)

// about is a modern request with further members of params.
func about(method, params string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":7,"method":%q,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}%s}}`, method, params)
}

// made has a server make a task for a call of a tool, and returns when the caller knows it.
func (l *link) made(srv *server, tool, id string) {
	l.t.Helper()
	done := l.do(&mcpmap.Call{Target: "one", Octets: about("tools/call", `,"name":"`+tool+`"`)})
	x := <-srv.modern
	x.Finish([]byte(`{"jsonrpc":"2.0","id":7,"result":{"resultType":"task","taskId":"` + id + `","status":"working","ttlMs":null}}`))
	if out := <-done; out.err != nil || !strings.Contains(string(out.Octets), `"taskId":"`+id+`"`) {
		l.t.Fatalf("no task: %+v", out)
	}
}

// told sends a request and returns its answer, of the server or of the mapping.
func (l *link) told(octets []byte) (answer string, served bool) {
	l.t.Helper()
	done := l.do(&mcpmap.Call{Target: "one", Octets: octets})
	synctest.Wait()
	select {
	case x := <-l.server.modern:
		served = true
		x.Finish([]byte(`{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","taskId":"t","status":"working"}}`))
	default:
	}
	out := <-done
	if out.err != nil {
		l.t.Fatal(out.err)
	}
	return string(out.Octets), served
}

func TestGW05ATaskIsOfTheCallerWhoMadeIt(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		bob := dial(t, l.served, "bob")
		bob.server = l.server
		l.made(l.server, "slow", "t")
		for _, request := range [][]byte{
			about("tasks/get", `,"taskId":"\u0074"`), about("tasks/cancel", `,"taskId":"t"`), about("tasks/update", `,"taskId":"t","inputResponses":{}`),
			about("tasks/result", `,"taskId":"t"`), about("tasks/other", `,"taskId":"t"`), // no methods of this revision
			about("subscriptions/listen", `,"notifications":{"toolsListChanged":true,"taskIds":["t"]}`),
		} {
			code := `"code":-32602`
			if strings.Contains(string(request), "tasks/result") || strings.Contains(string(request), "tasks/other") {
				code = `"code":-32601`
			}
			stolen, served := bob.told(request)
			if served {
				t.Errorf("the server got %s", request)
			}
			unknown, _ := bob.told([]byte(strings.Replace(strings.Replace(string(request), `"t"`, `"u"`, 1), `"\u0074"`, `"u"`, 1)))
			if stolen != unknown || !strings.Contains(stolen, code) {
				t.Errorf("%s: %s, and of an unknown one %s", request, stolen, unknown)
			}
		}
		if _, served := l.told(about("tasks/get", `,"taskId":"t"`)); !served {
			t.Error("the server did not get the request of the owner")
		}
		// On another connection the owner is the same.
		again := dial(t, l.served, "alice")
		again.server = l.server
		if _, served := again.told(about("tasks/cancel", `,"taskId":"t"`)); !served {
			t.Error("the server did not get the request of the owner on another connection")
		}
	})
}

func TestGW05AForeignTaskAmongListedOnesIsRefusedWhole(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		bob := dial(t, l.served, "bob")
		bob.server = l.server
		l.made(l.server, "slow", "a")
		bob.made(l.server, "slow", "b")
		if answer, served := bob.told(about("subscriptions/listen", `,"notifications":{"taskIds":["b","a"]}`)); served || !strings.Contains(answer, `"code":-32602`) {
			t.Errorf("served %v, %s", served, answer)
		}
		for _, own := range []string{`["b"]`, `["b","b"]`, `[]`, `null`} {
			if answer, served := bob.told(about("subscriptions/listen", `,"notifications":{"taskIds":`+own+`}`)); !served {
				t.Errorf("%s: %s", own, answer)
			}
		}
	})
}

func TestGW05TasksNamedInSeveralWaysAreMalformed(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		l.made(l.server, "slow", "t")
		for method, list := range map[string][]string{
			"tasks/get": {
				`"taskId":"t","taskId":"t"`, `"taskId":"t","TaskID":"u"`, `"taskid":"t"`, `"task\u0049d":"t","taskId":"t"`,
				`"tas\u212aId":"t","taskId":"t"`, `"ta\u017fkId":"t"`, `"taskId":7`, `"taskId":["t"]`, `"taskId":null`, `"taskId":"\ud800"`,
			},
			"subscriptions/listen": {
				`"notifications":{"taskIds":["t"]},"notifications":{}`, `"Notifications":{"taskIds":["t"]}`, `"notifications":{"taskIds":["t"],"taskIds":[]}`,
				`"notifications":{"TaskIds":["t"]}`, `"notifications":{"taskIds":"t"}`, `"notifications":{"taskIds":["t",7]}`, `"notifications":{"taskIds":{"t":1}}`,
			},
		} {
			for _, params := range list {
				if answer := l.raw("one", about(method, ","+params)); !strings.Contains(answer, `"code":-32600`) {
					t.Errorf("%s %s: %s", method, params, answer)
				}
			}
		}
	})
}

func TestGW05RulesOfAToolHoldForItsTasks(t *testing.T) {
	guarded(t, func(t *testing.T, l *link, r *rules) {
		l.made(l.server, "slow", "t")
		r.set("alice tasks/get one", "alice tasks/list one", "alice subscriptions/listen one", "alice tools/call one/other")
		l.refused(&mcpmap.Call{Target: "one", Octets: about("tasks/get", `,"taskId":"t"`)})
		l.refused(&mcpmap.Call{Target: "one", Octets: about("subscriptions/listen", `,"notifications":{"taskIds":["t"]}`)})
		done := l.do(&mcpmap.Call{Target: "one", Octets: about("tasks/list", ``)})
		(<-l.server.modern).Finish([]byte(`{"jsonrpc":"2.0","id":7,"result":{"tasks":[{"taskId":"t"}]}}`))
		if out := <-done; !strings.Contains(string(out.Octets), `"tasks":[]`) {
			t.Errorf("%s", out.Octets)
		}
	}, "alice tools/call one/slow", "alice tasks/get one")
}

// A server may send a notification about a task to all listeners.
func TestGW05NotificationsAboutATaskGoToItsOwner(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		bob := dial(t, l.served, "bob")
		l.made(l.server, "slow", "t")
		heard := make(map[string]int)
		listen := func(who *link, name string) *mcpmap.Exchange {
			who.do(&mcpmap.Call{Target: "one", Octets: about("subscriptions/listen", `,"notifications":{"toolsListChanged":true}`), Events: mcpmap.Events{
				Notification: func([]byte) { heard[name]++ },
			}})
			return <-l.server.modern
		}
		for name, x := range map[string]*mcpmap.Exchange{"alice": listen(l, "alice"), "bob": listen(bob, "bob")} {
			for _, note := range []string{
				`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"t","status":"completed","result":{}}}`,
				`{"jsonrpc":"2.0","method":"notifications\/tasks\/status","params":{"taskId":"t","status":"completed"}}`,
				`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"u"}}`,
				`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"u","taskId":"t"}}`,
				`{"jsonrpc":"2.0","method":"notifications/tasks","params":{}}`,
			} {
				x.Notify([]byte(note))
			}
			synctest.Wait()
			want(t, name+" heard", heard[name], map[string]int{"alice": 2, "bob": 0}[name])
			x.Finish([]byte(`{"jsonrpc":"2.0","id":7,"result":{}}`))
		}
		synctest.Wait()
	})
}

func TestGW05TasksOfTheLegacyEraAreOfTheirCaller(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		session, conv := l.initialize(mcpmap.Events{})
		done := l.do(&mcpmap.Call{Target: "one", Session: session, Octets: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","task":{"ttl":60000}}}`)})
		(<-conv.requests).Finish([]byte(`{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t","status":"working","ttl":60000}}}`))
		<-done
		bob := dial(t, l.served, "bob")
		bob.server = l.server
		other, talk := bob.initialize(mcpmap.Events{})
		for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
			request := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":2,"method":%q,"params":{"taskId":"t"}}`, method)
			if out := <-bob.do(&mcpmap.Call{Target: "one", Session: other, Octets: request}); !strings.Contains(string(out.Octets), `"code":-32602`) {
				t.Errorf("%s: %s", method, out.Octets)
			}
			done := l.do(&mcpmap.Call{Target: "one", Session: session, Octets: request})
			(<-conv.requests).Finish([]byte(`{"jsonrpc":"2.0","id":2,"result":{}}`))
			<-done
		}
		for _, who := range []struct {
			l       *link
			session string
			conv    *conversation
			want    string
		}{{l, session, conv, `{"tasks":[ {"taskId":"t","x":1.0}],"nextCursor":"c","cacheScope":"private"}`}, {bob, other, talk, `{"tasks":[ ],"nextCursor":"c","cacheScope":"private"}`}} {
			done := who.l.do(&mcpmap.Call{Target: "one", Session: who.session, Octets: legacy("3", "tasks/list")})
			(<-who.conv.requests).Finish([]byte(`{"jsonrpc":"2.0","id":3,"result":{"tasks":[ {"taskId":"t","x":1.0},{"taskId":"u"},{"taskId":"t","TASKID":"u"}],"nextCursor":"c"}}`))
			if out := <-done; string(out.Octets) != `{"jsonrpc":"2.0","id":3,"result":`+who.want+`}` {
				t.Errorf("tasks/list: %s", out.Octets)
			}
		}
	})
}

// A session with a task at work is one that its client comes back for.
func TestASessionWithATaskAtWorkOutlivesItsConnection(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		session, conv := l.initialize(mcpmap.Events{})
		done := l.do(&mcpmap.Call{Target: "one", Session: session, Octets: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","task":{"ttl":600000}}}`)})
		(<-conv.requests).Finish([]byte(`{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t","status":"working","ttl":600000}}}`))
		<-done
		l.near.Close()
		time.Sleep(9 * time.Minute)
		again := dial(t, l.served, "alice")
		done = again.do(&mcpmap.Call{Target: "one", Session: session, Octets: []byte(`{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t"}}`)})
		(<-conv.requests).Finish([]byte(`{"jsonrpc":"2.0","id":2,"result":{"taskId":"t","status":"completed","ttl":600000}}`))
		if out := <-done; !strings.Contains(string(out.Octets), "completed") {
			t.Fatalf("%+v", out)
		}
		again.near.Close()
		time.Sleep(2 * time.Minute)
		select {
		case <-conv.closed:
		default:
			t.Error("the session stays although its task has ended")
		}
	})
}

// keeper is a process with tasks.
type keeper struct {
	held  atomic.Int64
	asked atomic.Int64
}

func (k *keeper) Hold(string)    { k.held.Add(1) }
func (k *keeper) Release(string) { k.held.Add(-1) }
func (k *keeper) Do(x *mcpmap.Exchange) {
	k.asked.Add(1)
	x.From(k)
	x.Finish([]byte(`{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","taskId":"t","status":"completed","ttlMs":3600000}}`))
}

func TestATaskKeepsItsProcess(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		k, id := &keeper{}, 0
		task := func(result string) {
			t.Helper()
			id++
			done := l.do(&mcpmap.Call{Target: "one", Octets: about("tools/call", `,"name":"slow"`)})
			x := <-l.server.modern
			x.From(k)
			x.Finish([]byte(`{"jsonrpc":"2.0","id":7,"result":{"resultType":"task",` + result + `}}`))
			<-done
		}
		task(`"taskId":"t","status":"working","ttlMs":null`)
		want(t, "held", k.held.Load(), 1)
		time.Sleep(23 * time.Hour)
		want(t, "held after 23 hours", k.held.Load(), 1)
		<-l.do(&mcpmap.Call{Target: "one", Octets: about("tasks/get", `,"taskId":"t"`)})
		want(t, "requests at the process", k.asked.Load(), 1)
		want(t, "held after the end", k.held.Load(), 0)
		<-l.do(&mcpmap.Call{Target: "one", Octets: about("tasks/get", `,"taskId":"t"`)})
		want(t, "requests at the process", k.asked.Load(), 2)

		task(`"taskId":"over","status":"completed","ttlMs":null`)
		want(t, "held by a task that has ended", k.held.Load(), 0)
		task(`"taskId":"brief","status":"working","ttlMs":60000`)
		time.Sleep(59 * time.Second)
		want(t, "held within its time", k.held.Load(), 1)
		time.Sleep(2 * time.Second)
		want(t, "held after its time", k.held.Load(), 0)
		task(`"taskId":"quiet","status":"working","ttlMs":null`)
		time.Sleep(24*time.Hour + time.Second)
		want(t, "held after a day without a question", k.held.Load(), 0)
		if answer, served := l.told(about("tasks/get", `,"taskId":"quiet"`)); served || !strings.Contains(answer, `"code":-32602`) {
			t.Errorf("after a day without a question: %s", answer)
		}
	})
}

func TestRS22TasksAreBoundedAndSaidToBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer()
		table, err := mcpmap.NewTable(map[string]mcpmap.Server{"one": srv}, "")
		if err != nil {
			t.Fatal(err)
		}
		served := mcpmap.New(mcpmap.Options{Backend: table, MaxTasks: 8})
		defer served.Close()
		l, bob := dial(t, served, "alice"), dial(t, served, "bob")
		l.server, bob.server = srv, srv
		for i := range 7 {
			l.made(srv, "slow", fmt.Sprint(i))
		}
		if answer, reached := l.told(about("tools/call", `,"name":"slow"`)); reached || !strings.Contains(answer, "too many tasks of this caller") || !strings.Contains(answer, `"retryable":true`) {
			t.Errorf("above the bound: %s", answer)
		}
		bob.made(srv, "slow", "b")
		if _, reached := l.told(about("tasks/get", `,"taskId":"0"`)); !reached {
			t.Error("a task at the bound is not that of its owner")
		}
		// One that has ended gives way.
		done := l.do(&mcpmap.Call{Target: "one", Octets: about("tasks/get", `,"taskId":"3"`)})
		(<-srv.modern).Finish([]byte(`{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","taskId":"3","status":"failed"}}`))
		<-done
		l.made(srv, "slow", "new")
		want(t, "tasks", served.Stats().Tasks, 8)
		if answer, reached := l.told(about("tasks/get", `,"taskId":"3"`)); reached {
			t.Errorf("the oldest that had ended: %s", answer)
		}
		l.near.Close()
		bob.near.Close()
	})
}

func TestATaskWithALongNameIsRefusedWithTheReason(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		for n, ok := range map[int]bool{2048 - len("one/slow"): true, 2049 - len("one/slow"): false} {
			done := l.do(&mcpmap.Call{Target: "one", Octets: about("tools/call", `,"name":"slow"`)})
			(<-l.server.modern).Finish([]byte(`{"jsonrpc":"2.0","id":7,"result":{"resultType":"task","taskId":"` + strings.Repeat("t", n) + `"}}`))
			if out := <-done; strings.Contains(string(out.Octets), "longer than 2048 octets") == ok {
				t.Errorf("%d octets: %.200s", n, out.Octets)
			}
		}
	})
}
