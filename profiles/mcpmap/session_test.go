package mcpmap_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
)

func TestLegacySessionCarriesBothDirections(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		notes := make(chan string, 8)
		asked := make(chan *mcpmap.Asked, 1)
		id, conv := l.initialize(mcpmap.Events{
			Notification: func(b []byte) { notes <- string(b) },
			Request:      func(a *mcpmap.Asked) { asked <- a },
		})
		l.notify(id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		want(t, "notification", <-conv.notes, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)

		// The server says something on its own account.
		changed := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
		conv.client.Notify([]byte(changed))
		want(t, "unsolicited notification", <-notes, changed)

		// The server asks in the middle of a call; the call's own events hear it.
		inCall := make(chan *mcpmap.Asked, 1)
		done := l.do(&mcpmap.Call{Session: id, Octets: legacy("1", "tools/call"), Events: mcpmap.Events{
			Request: func(a *mcpmap.Asked) { inCall <- a },
		}})
		x := <-conv.requests
		answers := make(chan string, 1)
		ask(conv, x, `{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage"}`, answers)
		a := <-inCall
		want(t, "question", string(a.Message.Octets()), `{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage"}`)
		if err := a.Answer([]byte(`{"jsonrpc":"2.0","id":"s1"}`)); err == nil {
			t.Error("an answer with neither result nor error was accepted")
		}
		if err := a.Answer([]byte(`{"jsonrpc":"2.0","id":"\u0073\u0031", "result":{}}`)); err != nil {
			t.Error(err)
		}
		want(t, "answer", <-answers, `{"jsonrpc":"2.0","id":"\u0073\u0031", "result":{}}`)
		x.Finish([]byte(`{"jsonrpc":"2.0","id":1,"result":1}`))
		if out := <-done; out.err != nil {
			t.Error(out.err)
		}

		// And between calls; the session's events hear that.
		ask(conv, nil, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, answers)
		if err := (<-asked).Answer([]byte(`{"jsonrpc":"2.0","id":2,"result":{}}`)); err != nil {
			t.Error(err)
		}
		want(t, "answer", <-answers, `{"jsonrpc":"2.0","id":2,"result":{}}`)
		if err := a.Answer([]byte(`{"jsonrpc":"2.0","id":"s1","result":{}}`)); !errors.Is(err, profiles.ErrFinished) {
			t.Errorf("second answer: %v, want ErrFinished", err)
		}
	})
}

func ask(conv *conversation, x *mcpmap.Exchange, octets string, answers chan string) {
	var m mcpmap.Message
	if err := m.Scan([]byte(octets)); err != nil {
		panic(err)
	}
	conv.client.Request(x, &m, func(b []byte) { answers <- string(b) })
}

func TestServerLearnsThatNobodyAnswers(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		_, conv := l.initialize(mcpmap.Events{})
		answers := make(chan string, 1)
		ask(conv, nil, `{"jsonrpc":"2.0","id":5,"method":"roots/list"}`, answers)
		if got := <-answers; !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":5,"error":{"code":-32601`) {
			t.Errorf("answered %s", got)
		}
	})
}

func TestAnswerUnderAnotherIDIsNotPassedOn(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		asked := make(chan *mcpmap.Asked, 1)
		_, conv := l.initialize(mcpmap.Events{Request: func(a *mcpmap.Asked) { asked <- a }})
		answers := make(chan string, 1)
		ask(conv, nil, `{"jsonrpc":"2.0","id":5,"method":"roots/list"}`, answers)
		if err := (<-asked).Answer([]byte(`{"jsonrpc":"2.0","id":6,"result":{}}`)); err != nil {
			t.Fatal(err)
		}
		if got := <-answers; !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":5,"error":{"code":-32603`) {
			t.Errorf("answered %s", got)
		}
	})
}

func TestWhileTheClientIsAskedTheCallHasTime(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		asked := make(chan *mcpmap.Asked, 1)
		id, conv := l.initialize(mcpmap.Events{Request: func(a *mcpmap.Asked) { asked <- a }})
		done := l.do(&mcpmap.Call{Session: id, Octets: legacy("1", "tools/call")})
		x := <-conv.requests
		answers := make(chan string, 1)
		ask(conv, nil, `{"jsonrpc":"2.0","id":5,"method":"elicitation/create"}`, answers)
		a := <-asked
		time.Sleep(9 * time.Minute) // virtual: the user thinks
		if err := a.Answer([]byte(`{"jsonrpc":"2.0","id":5,"result":{}}`)); err != nil {
			t.Fatal(err)
		}
		<-answers
		time.Sleep(59 * time.Second) // virtual: the server works on with it
		x.Finish([]byte(`{"jsonrpc":"2.0","id":1,"result":1}`))
		if out := <-done; out.err != nil || !strings.Contains(string(out.Octets), `"result"`) {
			t.Errorf("%v %s", out.err, out.Octets)
		}
	})
}

func TestSessionOfAnotherIdentityDoesNotExist(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		id, conv := l.initialize(mcpmap.Events{})
		mallory := dial(t, l.served, "mallory")
		stolen := <-mallory.do(&mcpmap.Call{Session: id, Octets: legacy("1", "tools/list")})
		unknown := <-mallory.do(&mcpmap.Call{Session: "nonsense", Octets: legacy("1", "tools/list")})
		if stolen.err != nil || unknown.err != nil {
			t.Fatal(stolen.err, unknown.err)
		}
		want(t, "answer", string(stolen.Octets), string(unknown.Octets))
		want(t, "status", stolen.Status, 404)
		want(t, "requests at the server", len(conv.requests), 0)
		params := fmt.Appendf(nil, `{"session":%q}`, id)
		if err := l.served.End(mallory.far.Peer(), params); err == nil {
			t.Error("another identity ended the session")
		}
		if _, err := l.served.Listen(mallory.far, mallory.far.Peer(), nil, params, func(error) {}); err == nil {
			t.Error("another identity listens to the session")
		}
		// On another connection of its own identity it does.
		again := dial(t, l.served, "alice")
		done := again.do(&mcpmap.Call{Session: id, Octets: legacy("2", "tools/list")})
		(<-conv.requests).Finish([]byte(`{"jsonrpc":"2.0","id":2,"result":1}`))
		if out := <-done; out.err != nil {
			t.Error(out.err)
		}
	})
}

func TestSessionOutlivesItsConnectionForAWhile(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		id, conv := l.initialize(mcpmap.Events{})
		l.near.Close()
		time.Sleep(59 * time.Second) // virtual
		for range 300 {
			conv.client.Notify([]byte(`{"jsonrpc":"2.0","method":"a"}`))
		}
		again := dial(t, l.served, "alice")
		lane, err := again.far.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		release, err := l.served.Listen(again.far, again.far.Peer(), lane, fmt.Appendf(nil, `{"target":"one","session":%q}`, id), func(error) { close(ended) })
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // virtual: the session has its connection again
		want(t, "messages kept", len(again.near.Verdicts()), 256)
		release()
		<-ended
		again.near.Close()
		time.Sleep(61 * time.Second)
		select {
		case <-conv.closed:
		default:
			t.Error("the conversation is still open")
		}
		want(t, "sessions", l.served.Stats().Sessions, 0)
	})
}

// Who listens would do so to the last. Sessions and requests that have an end go on.
func TestDrainEndsWhatHasNoEnd(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		id, conv := l.initialize(mcpmap.Events{})
		params := fmt.Appendf(nil, `{"session":%q}`, id)
		lane, _ := l.far.Open(t.Context())
		ended := make(chan error, 1)
		listen := func() {
			t.Helper()
			release, err := l.served.Listen(l.far, l.far.Peer(), lane, params, func(why error) { ended <- why })
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			var fault *profiles.Error
			if !errors.As(<-ended, &fault) || !fault.Retryable {
				t.Errorf("listening ended with %v", fault)
			}
		}
		subscribe := func() <-chan outcome {
			return l.do(&mcpmap.Call{Octets: modern("7", mcpmap.MethodListen)})
		}
		refused := func(done <-chan outcome) {
			t.Helper()
			out := <-done
			if out.err != nil || !strings.Contains(string(out.Octets), `"retryable":true`) {
				t.Errorf("%v %s", out.err, out.Octets)
			}
		}
		going := l.do(&mcpmap.Call{Session: id, Octets: legacy("1", "a")})
		x := <-conv.requests
		subscribed := subscribe()
		open := <-l.server.modern
		cancelled := make(chan struct{})
		open.OnCancel(func([]byte) { close(cancelled) })
		time.AfterFunc(time.Second, l.served.Drain)
		listen()
		refused(subscribed)
		<-cancelled
		// What comes before the endpoint refuses it ends as well.
		listen()
		refused(subscribe())
		x.Finish([]byte(`{"jsonrpc":"2.0","id":1,"result":1}`))
		if out := <-going; out.err != nil || !strings.Contains(string(out.Octets), `"result"`) {
			t.Errorf("%v %s", out.err, out.Octets)
		}
		want(t, "sessions", l.served.Stats().Sessions, 1)
	})
}

func TestEndClosesTheConversation(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		id, conv := l.initialize(mcpmap.Events{})
		ended := make(chan struct{})
		params := fmt.Appendf(nil, `{"session":%q}`, id)
		lane, _ := l.far.Open(t.Context())
		if _, err := l.served.Listen(l.far, l.far.Peer(), lane, params, func(error) { close(ended) }); err != nil {
			t.Fatal(err)
		}
		if err := l.served.End(l.far.Peer(), params); err != nil {
			t.Fatal(err)
		}
		<-conv.closed
		<-ended
		if err := l.served.End(l.far.Peer(), params); err == nil {
			t.Error("ended twice")
		}
		out := <-l.do(&mcpmap.Call{Session: id, Octets: legacy("1", "a")})
		want(t, "status", out.Status, 404)
	})
}

func TestFailedInitializeLeavesNoSession(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		done := l.do(&mcpmap.Call{Octets: legacy("0", "initialize")})
		conv := <-l.server.opened
		(<-conv.requests).Finish([]byte(`{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no"}}`))
		out := <-done
		want(t, "session", out.Session, "")
		<-conv.closed
		want(t, "sessions", l.served.Stats().Sessions, 0)

		l.server.refuse = profiles.Busy("mcp_children", "no more")
		out = <-l.do(&mcpmap.Call{Octets: legacy("0", "initialize")})
		if out.err != nil || !strings.Contains(string(out.Octets), "ERR_RATE_LIMIT_EXCEEDED") {
			t.Errorf("%v %s", out.err, out.Octets)
		}
		want(t, "sessions", l.served.Stats().Sessions, 0)
	})
}

func TestRequestsWithoutASessionShareOneConversationPerConnection(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		first := l.do(&mcpmap.Call{Octets: legacy("1", "tools/list")})
		conv := <-l.server.opened
		x := <-conv.requests
		second := l.do(&mcpmap.Call{Octets: legacy("2", "tools/list")})
		y := <-conv.requests
		x.Finish([]byte(`{"jsonrpc":"2.0","id":1,"result":1}`))
		y.Finish([]byte(`{"jsonrpc":"2.0","id":2,"result":1}`))
		if out := <-first; out.err != nil || out.Session != "" {
			t.Errorf("%v, session %q", out.err, out.Session)
		}
		<-second
		other := dial(t, l.served, "alice")
		other.do(&mcpmap.Call{Octets: legacy("1", "tools/list")})
		conv2 := <-l.server.opened
		z := <-conv2.requests
		z.Finish([]byte(`{"jsonrpc":"2.0","id":1,"result":1}`))
		l.near.Close()
		<-conv.closed // at once: nobody could name it
		select {
		case <-conv2.closed:
			t.Error("the other connection's conversation is closed")
		default:
		}
	})
}

func TestSessionBoundPerIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer()
		table, _ := mcpmap.NewTable(map[string]mcpmap.Server{"one": srv}, "")
		served := mcpmap.New(mcpmap.Options{Backend: table, MaxSessionsPerPeer: 1})
		l := dial(t, served, "alice")
		l.server = srv
		id, conv := l.initialize(mcpmap.Events{})
		busy := l.do(&mcpmap.Call{Session: id, Octets: legacy("1", "x")})
		x := <-conv.requests
		out := <-l.do(&mcpmap.Call{Octets: legacy("0", "initialize")})
		if !strings.Contains(string(out.Octets), "ERR_RATE_LIMIT_EXCEEDED") {
			t.Errorf("second session: %s", out.Octets)
		}
		x.Finish([]byte(`{"jsonrpc":"2.0","id":1,"result":1}`))
		<-busy
		if err := served.End(l.far.Peer(), fmt.Appendf(nil, `{"session":%q}`, id)); err != nil {
			t.Fatal(err)
		}
		<-conv.closed
		l.initialize(mcpmap.Events{})
		served.Close()
		out = <-l.do(&mcpmap.Call{Octets: legacy("0", "initialize")})
		if !strings.Contains(string(out.Octets), "ERR_RATE_LIMIT_EXCEEDED") {
			t.Errorf("after Close: %s", out.Octets)
		}
	})
}

// A client that does not end its sessions gets the place of the one that it used least recently. One on
// which it listens, or that has a request under way, keeps its place.
func TestAnIdleSessionEndsInFavourOfAnotherOfItsIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer()
		table, _ := mcpmap.NewTable(map[string]mcpmap.Server{"one": srv}, "")
		served := mcpmap.New(mcpmap.Options{Backend: table, MaxSessionsPerPeer: 3})
		l, other := dial(t, served, "alice"), dial(t, served, "bob")
		l.server, other.server = srv, srv
		_, theirs := other.initialize(mcpmap.Events{})
		next := func() (string, *conversation) { time.Sleep(time.Second); return l.initialize(mcpmap.Events{}) }
		heard, listens := next()
		lane, err := l.far.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		release, err := served.Listen(l.far, l.far.Peer(), lane, mcpmap.SessionParams("one", heard), func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		id, first := next()
		_, second := next()
		time.Sleep(time.Second)
		l.notify(id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`) // so that the second is older
		synctest.Wait()
		_, third := next()
		<-second.closed
		for _, conv := range []*conversation{first, third} {
			next()
			<-conv.closed
		}
		select {
		case <-listens.closed:
			t.Error("a session on which the client listens has ended")
		case <-theirs.closed:
			t.Error("a session of another identity has ended")
		default:
		}
		if err := served.End(l.far.Peer(), mcpmap.IdleParams("one", heard)); err == nil {
			t.Error("a session on which the client listens was taken for idle")
		}
		release()
		if err := served.End(l.far.Peer(), mcpmap.IdleParams("one", heard)); err != nil {
			t.Error(err)
		}
		<-listens.closed
		served.Close()
	})
}

func TestRS22SessionsOfOneIdentityLeavePlacesForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer()
		table, _ := mcpmap.NewTable(map[string]mcpmap.Server{"one": srv}, "")
		served := mcpmap.New(mcpmap.Options{Backend: table, MaxSessions: 8})
		mallory, alice := dial(t, served, "mallory"), dial(t, served, "alice")
		mallory.server, alice.server = srv, srv
		for range 7 {
			mallory.busy(mcpmap.Events{})
		}
		out := <-mallory.do(&mcpmap.Call{Octets: legacy("0", "initialize")})
		if !strings.Contains(string(out.Octets), "ERR_RATE_LIMIT_EXCEEDED") {
			t.Errorf("the eighth session of eight: %s", out.Octets)
		}
		alice.initialize(mcpmap.Events{})
		served.Close()
	})
}

// Idle sessions give way whatever the shares of their identities are: those of an identity with more for one
// within its share, else those of an identity for its own next one.
func TestIdleSessionsGiveWayBeforeAnybodyIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer()
		table, _ := mcpmap.NewTable(map[string]mcpmap.Server{"one": srv}, "")
		served := mcpmap.New(mcpmap.Options{Backend: table, MaxSessions: 16})
		defer served.Close()
		links := make(map[string]*link)
		open := func(who string, n int) (opened []*conversation) {
			if links[who] == nil {
				links[who] = dial(t, served, who)
				links[who].server = srv
			}
			for range n {
				time.Sleep(time.Second)
				done := links[who].do(&mcpmap.Call{Octets: legacy("0", "initialize")})
				select {
				case conv := <-srv.opened:
					(<-conv.requests).Finish([]byte(`{"jsonrpc":"2.0","id":0,"result":{}}`))
					<-done
					opened = append(opened, conv)
				case out := <-done:
					t.Fatalf("session %d of %s: %s", len(opened)+1, who, out.Octets)
				}
			}
			return opened
		}
		ends := func(what string, ended ...*conversation) {
			t.Helper()
			synctest.Wait()
			for i, conv := range ended {
				select {
				case <-conv.closed:
				default:
					t.Errorf("session %d of %s has not ended", i+1, what)
				}
			}
			want(t, "sessions after "+what, served.Stats().Sessions, 16)
		}
		alice := open("alice", 14) // seven eighths
		bob := open("bob", 2)      // all are in use, and each has a share of 7
		alice = append(alice, open("alice", 2)...)
		ends("alice, above her share", alice[:2]...)
		bob = append(bob, open("bob", 5)...)
		ends("bob, up to his share", alice[2:7]...)
		bob = append(bob, open("bob", 2)...)
		ends("bob, above his share", bob[:2]...)
		for range 9 {
			links["alice"].busy(mcpmap.Events{})
		}
		ends("alice, until all are in use", alice...)
		out := <-links["alice"].do(&mcpmap.Call{Octets: legacy("0", "initialize")})
		if !strings.Contains(string(out.Octets), "ERR_RATE_LIMIT_EXCEEDED") {
			t.Errorf("without an idle session: %s", out.Octets)
		}
		for _, conv := range bob[2:] {
			select {
			case <-conv.closed:
				t.Error("a session of bob has ended for alice, who has more")
			default:
			}
		}
	})
}

func TestFairnessOfSessions(t *testing.T) {
	fairtest.Places(t, "mcp: sessions over SWP", "sessions of 16", func(t *testing.T) (func(string) bool, func(string)) {
		srv := newServer()
		table, _ := mcpmap.NewTable(map[string]mcpmap.Server{"one": srv}, "")
		served := mcpmap.New(mcpmap.Options{Backend: table, MaxSessions: 16})
		t.Cleanup(served.Close)
		links, open := map[string]*link{}, map[string][]*conversation{}
		take := func(who string) bool {
			if links[who] == nil {
				links[who] = dial(t, served, who)
			}
			done := links[who].do(&mcpmap.Call{Target: "one", Octets: legacy("0", "initialize")})
			select {
			case conv := <-srv.opened:
				(<-conv.requests).Finish([]byte(`{"jsonrpc":"2.0","id":0,"result":{}}`))
				links[who].do(&mcpmap.Call{Target: "one", Session: (<-done).Session, Octets: legacy("1", "busy")})
				<-conv.requests
				open[who] = append(open[who], conv)
				return true
			case out := <-done:
				if !strings.Contains(string(out.Octets), "ERR_RATE_LIMIT_EXCEEDED") {
					t.Errorf("a session without a place: %s, %v", out.Octets, out.err)
				}
				return false
			}
		}
		return take, func(who string) {
			open[who][0].client.Ended()
			open[who] = open[who][1:]
		}
	})
}

func TestOctetsKeptForAnAbsentClientAreBounded(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		_, conv := l.initialize(mcpmap.Events{})
		l.near.Close()
		synctest.Wait()
		large := []byte(`{"jsonrpc":"2.0","method":"a","params":"` + strings.Repeat("x", 5<<20) + `"}`)
		for range 5 {
			conv.client.Notify(large)
		}
		want(t, "dropped", l.served.Stats().Dropped, 2)
	})
}
