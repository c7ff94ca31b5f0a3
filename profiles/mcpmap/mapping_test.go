package mcpmap_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/profiletest"
)

// server is a Server whose exchanges and conversations the test takes by hand.
type server struct {
	modern chan *mcpmap.Exchange
	opened chan *conversation
	refuse error
}

func newServer() *server {
	return &server{modern: make(chan *mcpmap.Exchange, 16), opened: make(chan *conversation, 16)}
}

func (s *server) Do(x *mcpmap.Exchange) { s.modern <- x }

func (s *server) Connect(client mcpmap.Counterpart) (mcpmap.Conversation, error) {
	if s.refuse != nil {
		return nil, s.refuse
	}
	c := &conversation{
		client: client, requests: make(chan *mcpmap.Exchange, 16),
		notes: make(chan string, 16), closed: make(chan struct{}),
	}
	s.opened <- c
	return c, nil
}

type conversation struct {
	client   mcpmap.Counterpart
	requests chan *mcpmap.Exchange
	notes    chan string
	once     sync.Once
	closed   chan struct{}
}

func (c *conversation) Do(x *mcpmap.Exchange)    { c.requests <- x }
func (c *conversation) Notify(m *mcpmap.Message) { c.notes <- string(m.Octets()) }
func (c *conversation) Close()                   { c.once.Do(func() { close(c.closed) }) }

// link is a served Mapping and a calling one with a connection between them.
type link struct {
	t      *testing.T
	server *server
	served *mcpmap.Mapping
	near   *profiletest.Session // the caller's end
	far    *profiletest.Session // the server's end
	client *mcpmap.Client
}

// play runs a test in virtual time with one connection to a server "one".
func play(t *testing.T, f func(t *testing.T, l *link)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := newServer()
		table, err := mcpmap.NewTable(map[string]mcpmap.Server{"one": srv}, "")
		if err != nil {
			t.Fatal(err)
		}
		served := mcpmap.New(mcpmap.Options{Backend: table})
		l := dial(t, served, "alice")
		l.server = srv
		f(t, l)
		synctest.Wait()
		l.near.Close()
		served.Close()
		synctest.Wait()
		if n := l.far.InFlight(); n != 0 {
			t.Errorf("%d requests are still in flight", n)
		}
	})
}

// dial connects a caller of its own identity to a Mapping.
func dial(t *testing.T, served *mcpmap.Mapping, identity string) *link {
	t.Helper()
	calling := mcpmap.New(mcpmap.Options{})
	near, far := profiletest.Pair(identity, registry(t, calling), "server", registry(t, served), profiletest.SessionOptions{})
	t.Cleanup(func() { near.Close(); near.Wait(); far.Wait() })
	return &link{t: t, served: served, near: near, far: far, client: calling.Client(near)}
}

func registry(t *testing.T, m *mcpmap.Mapping) *profiles.Registry {
	t.Helper()
	r, err := profiles.NewRegistry(m.Profile())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

type outcome struct {
	*mcpmap.Result
	err error
}

// do starts a call and returns where its outcome will be.
func (l *link) do(call *mcpmap.Call) <-chan outcome { return l.doContext(l.t.Context(), call) }

func (l *link) doContext(ctx context.Context, call *mcpmap.Call) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		r, err := l.client.Do(ctx, call)
		done <- outcome{r, err}
	}()
	return done
}

func (l *link) notify(session, octets string) {
	l.t.Helper()
	if err := l.client.Notify(l.t.Context(), "one", session, []byte(octets)); err != nil {
		l.t.Fatal(err)
	}
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func modern(id, method string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, id, method)
}

func legacy(id, method string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q}`, id, method)
}

// initialize opens a legacy session and returns its end at the server.
func (l *link) initialize(events mcpmap.Events) (string, *conversation) {
	l.t.Helper()
	done := l.do(&mcpmap.Call{Target: "one", Octets: legacy("0", "initialize"), Events: events})
	conv := <-l.server.opened
	(<-conv.requests).Finish([]byte(`{"jsonrpc":"2.0","id":0,"result":{}}`))
	out := <-done
	if out.err != nil || len(out.Session) < 22 {
		l.t.Fatalf("initialize: %v, session %q of less than 128 bits", out.err, out.Session)
	}
	return out.Session, conv
}

// busy opens a legacy session with a request that does not end.
func (l *link) busy(events mcpmap.Events) {
	l.t.Helper()
	id, conv := l.initialize(events)
	l.do(&mcpmap.Call{Target: "one", Session: id, Octets: legacy("1", "busy")})
	<-conv.requests
}

func TestModernExchangeIsCarriedOctetForOctet(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		var heard []string
		events := mcpmap.Events{Notification: func(b []byte) { heard = append(heard, string(b)) }}
		request := " " + string(modern("9007199254740993", "tools/call")) + "\t"
		done := l.do(&mcpmap.Call{Target: "one", Params: []string{"a:b"}, Octets: []byte(request), Events: events})
		x := <-l.server.modern
		want(t, "request", string(x.Message.Octets()), request)
		want(t, "peer", x.Peer().Identity, "alice")
		want(t, "parameters", fmt.Sprintf("%s", x.Params()), "[a:b]")
		progress := `{ "jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}`
		x.Notify([]byte(progress))
		x.Notify([]byte(progress))
		response := `{"result":{"a":1.0,"a":2},"id":9007199254740993,"jsonrpc":"2.0"}`
		x.FinishStatus([]byte(response), 201)
		x.Finish([]byte(`{"jsonrpc":"2.0","id":9007199254740993,"result":"again"}`))
		out := <-done
		if out.err != nil {
			t.Fatal(out.err)
		}
		want(t, "response", string(out.Octets), response)
		want(t, "status", out.Status, 201)
		want(t, "session", out.Session, "")
		if !slices.Equal(heard, []string{progress, progress}) {
			t.Errorf("heard %q before the response, want the progress twice", heard)
		}
	})
}

// A status is the peer's word. What no answer over HTTP can have is none.
func TestOnlyAStatusThatAnAnswerCanHaveIsOne(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		for status, told := range map[int]int{
			50: 0, 99: 0, 101: 0, 200: 200, 204: 0, 205: 0, 300: 0, 302: 0, 304: 0, 399: 0, 400: 400, 401: 0, 403: 0, 404: 404, 407: 0, 599: 599, 600: 0, 1000: 0,
		} {
			done := l.do(&mcpmap.Call{Target: "one", Octets: modern("1", "tools/call")})
			(<-l.server.modern).FinishStatus([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`), status)
			out := <-done
			if out.err != nil {
				t.Fatal(out.err)
			}
			want(t, "status", out.Status, told)
		}
	})
}

func TestRequestWithoutKnownTargetNamesTheChoices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newServer(), newServer()
		table, err := mcpmap.NewTable(map[string]mcpmap.Server{"beta": b, "alpha": a}, "")
		if err != nil {
			t.Fatal(err)
		}
		l := dial(t, mcpmap.New(mcpmap.Options{Backend: table}), "alice")
		for _, target := range []string{"", "gamma"} {
			out := <-l.do(&mcpmap.Call{Target: target, Octets: modern(`"x"`, "tools/list")})
			if out.err != nil {
				t.Fatal(out.err)
			}
			for _, part := range []string{`"id":"x"`, `"code":-32602`, "alpha, beta"} {
				if !strings.Contains(string(out.Octets), part) {
					t.Errorf("target %q: %s, want %s in it", target, out.Octets, part)
				}
			}
		}
		if err := l.client.Notify(t.Context(), "gamma", "", []byte(`{"jsonrpc":"2.0","method":"a"}`)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, v := range l.far.Verdicts() {
			if v.Err != nil && !v.Err.Domain {
				t.Errorf("verdict %v costs the peer", v.Err)
			}
		}
		want(t, "dropped", l.served.Stats().Dropped, 1)
	})
}

func TestNewTableRefusesUnknownDefault(t *testing.T) {
	if _, err := mcpmap.NewTable(map[string]mcpmap.Server{"a": newServer()}, "b"); err == nil {
		t.Error("accepted")
	}
}

func TestGW06NothingMalformedIsForwarded(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		for _, c := range []struct{ payload, id, code string }{
			{`{"jsonrpc":"2.0","method":"a"}`, "null", "-32600"},
			{`{"jsonrpc":"2.0","id":7,"id":8,"method":"a"}`, "7", "-32600"},
			{`{"jsonrpc":"2.0","id":7,"m\u0065thod":"b","method":"a"}`, "7", "-32600"},
			{`{"jsonrpc":"1.0","id":"q","method":"a"}`, `"q"`, "-32600"},
			{`{"jsonrpc":"2.0","id":` + strings.Repeat("9", 600) + `,"method":"a","result":1}`, "null", "-32600"},
			{`[]`, "null", "-32600"},
			{`"x"`, "null", "-32600"},
			{"\ufeff{}", "null", "-32700"},
			{``, "null", "-32700"},
			{`{"jsonrpc":"2.0","id":7,"method":"a"`, "null", "-32700"},
			{`{"jsonrpc":"2.0","id":7,"method":"a"}x`, "null", "-32700"},
			{`{"jsonrpc":"2.0","id":7,"method":"` + "\xff" + `"}`, "null", "-32700"},
			{`{"jsonrpc":"2.0","id":7,"method":"a","params":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, "null", "-32700"},
		} {
			call, err := l.near.Call(t.Context(), e1.Envelope{ProfileID: 1, MsgType: 1, Payload: []byte(c.payload)})
			if err != nil {
				t.Fatal(err)
			}
			env, err := call.Recv(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			answer := string(env.Payload)
			head := `{"jsonrpc":"2.0","id":` + c.id + `,"error":{"code":` + c.code + `,`
			if !strings.HasPrefix(answer, head) || !strings.Contains(answer, `"data":{"code":"ERR_INVALID_MCP_PAYLOAD","retryable":false}`) {
				t.Errorf("%.60s: answered %s, want %s…", c.payload, answer, head)
			}
			if len(answer) > 512 {
				t.Errorf("%.60s: answer of %d octets, want at most 512", c.payload, len(answer))
			}
			call.Close()
		}
		for _, v := range l.far.Verdicts() {
			want(t, "verdict", v.Code, profiles.InvalidMCPPayload)
		}
		want(t, "exchanges", len(l.server.modern)+len(l.server.opened), 0)
	})
}

func TestMalformedNotificationIsNotAnswered(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		if err := l.near.Send(t.Context(), e1.Envelope{ProfileID: 1, MsgType: 3, Payload: []byte(`{"id":1}`)}); err != nil {
			t.Fatal(err)
		}
		if err := l.near.Send(t.Context(), e1.Envelope{ProfileID: 1, MsgType: 2, Payload: []byte(`{"id":1}`)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want(t, "verdicts", len(l.far.Verdicts()), 2)
		for _, v := range l.far.Verdicts() {
			want(t, "verdict", v.Code, profiles.InvalidMCPPayload)
		}
		want(t, "answers", len(l.near.Verdicts()), 0)
	})
}

func TestSilentServerIsGivenUp(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		start := time.Now()
		done := l.do(&mcpmap.Call{Octets: modern("7", "tools/call")})
		x := <-l.server.modern
		gave := make(chan bool, 1)
		x.OnCancel(func(octets []byte) { gave <- octets == nil })
		out := <-done
		if out.err != nil {
			t.Fatal(out.err)
		}
		want(t, "time", time.Since(start), 10*time.Minute)
		if !strings.HasPrefix(string(out.Octets), `{"jsonrpc":"2.0","id":7,"error":{"code":-32603`) {
			t.Errorf("answered %s", out.Octets)
		}
		want(t, "cancelled without octets", <-gave, true)
		x.Finish([]byte(`{"jsonrpc":"2.0","id":7,"result":1}`)) // too late: no effect
	})
}

func TestProgressRenewsTheDeadlineUpToTheLimit(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		start := time.Now()
		done := l.do(&mcpmap.Call{Octets: modern("7", "tools/call")})
		x := <-l.server.modern
		stop := make(chan struct{})
		go func() {
			tick := time.NewTicker(50 * time.Second)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					x.Notify([]byte(`{"jsonrpc":"2.0","method":"notifications/progress"}`))
				case <-stop:
					return
				}
			}
		}()
		<-done
		close(stop)
		want(t, "time", time.Since(start), time.Hour)
	})
}

func TestDeadlineOfTheRequestIsKept(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		start := time.Now()
		call, err := l.near.Call(t.Context(), e1.Envelope{
			ProfileID: 1, MsgType: 1, Payload: modern("7", "a"),
			Extensions: e1.AppendExtensionUvarint(nil, profiles.ExtDeadline, 1500),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer call.Close()
		<-l.server.modern
		if _, err := call.Recv(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, "time", time.Since(start), 1500*time.Millisecond)
	})
}

func TestADeadlineThatIsNoNumberIsRefused(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		for _, value := range []string{"", "\x80", "\x01\x01"} {
			call, err := l.near.Call(t.Context(), e1.Envelope{
				ProfileID: 1, MsgType: 1, Payload: modern("7", "a"),
				Extensions: e1.AppendExtension(nil, profiles.ExtDeadline, []byte(value)),
			})
			if err != nil {
				t.Fatal(err)
			}
			answer, err := call.Recv(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := string(answer.Payload); !strings.Contains(got, `"code":"ERR_INVALID_PROFILE_PAYLOAD","retryable":false`) {
				t.Errorf("%q: answered %s", value, got)
			}
			call.Close()
			want(t, "requests that reached the server", len(l.server.modern), 0)
		}
	})
}

func TestSubscriptionHasNoDeadline(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		done := l.do(&mcpmap.Call{Octets: modern("7", "subscriptions/listen")})
		x := <-l.server.modern
		time.Sleep(2 * time.Hour) // virtual
		x.Finish([]byte(`{"jsonrpc":"2.0","id":7,"result":{}}`))
		if out := <-done; out.err != nil || !strings.Contains(string(out.Octets), "result") {
			t.Errorf("%v %s", out.err, out.Octets)
		}
	})
}

func TestCancellationIsPassedOnAndEndsTheCall(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		done := l.do(&mcpmap.Call{Target: "one", Octets: modern(`"a"`, "tools/call")})
		x := <-l.server.modern
		got := make(chan string, 1)
		x.OnCancel(func(octets []byte) { got <- string(octets) })
		cancel := `{"jsonrpc":"2.0", "method":"notifications/cancelled","params":{"requestId":"\u0061"}}`
		l.notify("", cancel)
		want(t, "cancellation", <-got, cancel)
		if out := <-done; !errors.Is(out.err, mcpmap.ErrCancelled) {
			t.Errorf("Do: %v, want ErrCancelled", out.err)
		}
		synctest.Wait()
		want(t, "in flight", l.far.InFlight(), 0)
	})
}

func TestEndOfContextCancelsAtTheServer(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		ctx, cancel := context.WithCancel(t.Context())
		done := l.doContext(ctx, &mcpmap.Call{Octets: modern("1.0", "tools/call")})
		x := <-l.server.modern
		got := make(chan string, 1)
		x.OnCancel(func(octets []byte) { got <- string(octets) })
		cancel()
		want(t, "cancellation", <-got, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1.0}}`)
		if out := <-done; !errors.Is(out.err, context.Canceled) {
			t.Errorf("Do: %v, want context.Canceled", out.err)
		}
	})
}

func TestLostConnectionCancelsAndFailsTheCall(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		done := l.do(&mcpmap.Call{Octets: modern("1", "tools/call")})
		x := <-l.server.modern
		got := make(chan bool, 1)
		x.OnCancel(func(octets []byte) { got <- octets == nil })
		l.far.Close()
		want(t, "cancelled without octets", <-got, true)
		out := <-done
		if !errors.Is(out.err, profiletest.ErrClosed) {
			t.Errorf("Do: %v, want the cause", out.err)
		}
		answer := string(mcpmap.AppendFailure(nil, []byte("1"), out.err))
		want(t, "failure", answer, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"connection lost","data":{"code":"ERR_INTERNAL_ERROR","retryable":false}}}`)
	})
}

func TestFailureCodes(t *testing.T) {
	for code, number := range map[profiles.Code]int{
		profiles.InvalidFrame: -32700, profiles.FrameTooLarge: -32700, profiles.InvalidUvarint: -32700,
		profiles.UnsupportedVersion: -32600, profiles.UnknownProfile: -32601,
		profiles.InvalidEnvelope: -32600, profiles.MsgIDInvalid: -32600, profiles.PayloadTooLarge: -32600, profiles.ExtTooLarge: -32600,
		profiles.Internal: -32603, profiles.RateLimitExceeded: -32603, profiles.SecurityPolicy: -32603, profiles.DuplicateMsgID: -32603,
		profiles.UnsupportedMsgType: -32603, profiles.InvalidMCPPayload: -32603,
	} {
		got := string(mcpmap.AppendFailure(nil, nil, profiles.Errorf(code, `a "quoted" text`)))
		exp := fmt.Sprintf(`{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":"a \"quoted\" text","data":{"code":%q,"retryable":false}}}`, number, code)
		want(t, code.String(), got, exp)
	}
	long := mcpmap.AppendFailure(nil, []byte(strings.Repeat("1", 150)), profiles.Errorf(profiles.UnsupportedMsgType, "%s", strings.Repeat("\x01ü\"", 400)))
	if len(long) > 512 {
		t.Errorf("%d octets, want at most 512", len(long))
	}
}

func TestInFlightBoundIsAnsweredAsJSONRPC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer()
		table, _ := mcpmap.NewTable(map[string]mcpmap.Server{"one": srv}, "")
		served, calling := mcpmap.New(mcpmap.Options{Backend: table}), mcpmap.New(mcpmap.Options{})
		near, far := profiletest.Pair("alice", registry(t, calling), "server", registry(t, served), profiletest.SessionOptions{InFlight: 1})
		l := &link{t: t, server: srv, served: served, near: near, far: far, client: calling.Client(near)}
		first := l.do(&mcpmap.Call{Octets: modern("1", "a")})
		x := <-srv.modern
		out := <-l.do(&mcpmap.Call{Octets: modern("2", "a")})
		if out.err != nil || !strings.Contains(string(out.Octets), `"data":{"code":"ERR_RATE_LIMIT_EXCEEDED","retryable":true}`) {
			t.Errorf("%v %s", out.err, out.Octets)
		}
		x.Finish([]byte(`{"jsonrpc":"2.0","id":1,"result":1}`))
		<-first
		near.Close()
		near.Wait()
		far.Wait()
	})
}

func TestDoRefusesWhatIsNoRequest(t *testing.T) {
	play(t, func(t *testing.T, l *link) {
		var fault *profiles.Error
		if out := <-l.do(&mcpmap.Call{Octets: []byte(`{"jsonrpc":"2.0","id":1}`)}); !errors.As(out.err, &fault) || fault.Code != profiles.InvalidMCPPayload {
			t.Errorf("%v, want InvalidMCPPayload", out.err)
		}
		if err := l.client.Notify(t.Context(), "", "", legacy("1", "a")); !errors.As(err, &fault) {
			t.Errorf("%v, want InvalidMCPPayload", err)
		}
		want(t, "messages sent", len(l.far.Verdicts()), 0)
	})
}
