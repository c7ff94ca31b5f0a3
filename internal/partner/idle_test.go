package partner_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// attentive is a server of sessions that answers everything, and keeps what the last one has heard.
type attentive struct {
	mu    sync.Mutex
	last  mcpmap.Counterpart
	heard []string
}

// attending is a session of it.
type attending struct{ of *attentive }

func (a *attentive) Do(x *mcpmap.Exchange) {
	x.Finish(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`, x.Message.ID()))
}

func (a *attentive) Connect(client mcpmap.Counterpart) (mcpmap.Conversation, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last, a.heard = client, nil
	return attending{a}, nil
}

func (c attending) Close() {}

func (c attending) Do(x *mcpmap.Exchange) {
	c.hear(&x.Message)
	c.of.Do(x)
}

func (c attending) Notify(m *mcpmap.Message) { c.hear(m) }

func (c attending) hear(m *mcpmap.Message) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.heard = append(c.of.heard, string(m.Method()))
}

// linked is an endpoint with a link over streams to a partner b, and a client of the endpoint.
type linked struct {
	*partner.Link
	asker   *endpoint.Session
	client  *mcpmap.Client // of it
	up      *partner.Up
	crowded atomic.Int32 // how often that was observed
}

// maxThere is how many sessions an identity may have at the partner.
const maxThere = 100

func newLinked(t *testing.T, server mcpmap.Server, streams int) *linked {
	t.Helper()
	const self, other = "spiffe://a.example/swpd", "spiffe://b.example/swpd"
	there, err := all.New(all.Options{
		Partner: func(identity string) bool { return identity == self },
		MCP:     mcpmap.Options{Backend: tables(t, map[string]mcpmap.Server{"tools": server}), MaxSessionsPerPeer: maxThere},
		RPC: rpc.Options{Methods: map[string]rpc.Method{"hang": {Long: true, Held: func(p *rpc.Pending, _ []byte) error {
			context.AfterFunc(p.Context(), func() { p.Fail(nil) })
			return nil
		}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	far := observed(t, there, endpoint.Discard)
	directory := new(partner.Directory)
	var served *all.Set
	served, err = all.New(all.Options{MCP: mcpmap.Options{MaxSessionsPerPeer: 1024, Backend: &partner.Backend{
		Local: tables(t, nil), Directory: directory, Client: func(s profiles.Session) *mcpmap.Client { return served.MCP.Client(s) },
	}}})
	if err != nil {
		t.Fatal(err)
	}
	near := attached(t, served)
	made := new(linked)
	l, err := partner.New(partner.Options{
		Observe: func(e partner.Event) {
			if e.What == partner.Crowded {
				made.crowded.Add(1)
			}
		},
		Name: "b", Identity: other, Self: func() string { return self }, Addresses: []transport.Addr{{Transport: "quic", Host: "b", Port: 1}},
		Dial: func(context.Context, transport.Addr) (transport.Conn, error) {
			ours, theirs := transport.NewPipe(transport.PipeOptions{Multiplexed: true, Streams: streams, A: self, B: other})
			far.Attach(theirs)
			return ours, nil
		},
		Attach: near.Attach,
	})
	if err != nil {
		t.Fatal(err)
	}
	directory.Set([]*partner.Link{l})
	up := connected(t, l)
	t.Cleanup(l.Close)
	set, err := all.New(all.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := transport.Pipe()
	near.Attach(theirs)
	made.Link, made.asker, made.up = l, attached(t, set).Attach(ours), up
	made.client = set.MCP.Client(made.asker)
	return made
}

// call sends a request to the server of the partner.
func (l *linked) call(t *testing.T, session, method string, events mcpmap.Events) *mcpmap.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	result, err := l.client.Do(ctx, &mcpmap.Call{
		Target: "b/tools", Session: session, Octets: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q}`, method), Events: events,
	})
	if err != nil || result.Error() != nil {
		t.Fatalf("%s: %v, %+v", method, err, result)
	}
	return result
}

func (l *linked) notify(t *testing.T, session, method string) {
	t.Helper()
	if err := l.client.Notify(t.Context(), "b/tools", session, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`, method)); err != nil {
		t.Fatal(err)
	}
}

// Sessions of the legacy era stay open for half an hour. A link of 16 streams serves any number of them.
func TestRS31IdleSessionsHoldNoStreamOfALink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sessions, streams = 90, 16
		server := new(attentive)
		l := newLinked(t, server, streams)
		notes := make(chan string, 1)
		var last string
		for range sessions {
			opened := l.call(t, "", "initialize", mcpmap.Events{Notification: func(octets []byte) { notes <- string(octets) }})
			last = opened.Session
			l.notify(t, last, "notifications/initialized")
			l.call(t, last, "tools/list", mcpmap.Events{})
		}
		synctest.Wait()
		if used := l.up.Session.Streams().Used; used > 1 {
			t.Errorf("%d idle sessions hold %d streams, want the one on which the link listens", sessions, used)
		}
		// They are heard nevertheless, and used again, in order.
		const changed = `{"jsonrpc":"2.0","method":"notifications/message"}`
		server.last.Notify([]byte(changed))
		if note := <-notes; note != changed {
			t.Errorf("the client has heard %s", note)
		}
		for range 3 {
			l.notify(t, last, "notifications/roots/list_changed")
			time.Sleep(time.Minute)
			l.notify(t, last, "notifications/roots/list_changed")
			l.call(t, last, "tools/list", mcpmap.Events{})
		}
		synctest.Wait()
		if used := l.up.Session.Streams().Used; used > 1 || l.crowded.Load() != 0 {
			t.Errorf("after use: %d streams; %d warnings", used, l.crowded.Load())
		}
		want := "[initialize notifications/initialized tools/list"
		for range 3 {
			want += strings.Repeat(" notifications/roots/list_changed", 2) + " tools/list"
		}
		if got := fmt.Sprint(server.heard); got != want+"]" {
			t.Errorf("the server has heard %s", got)
		}
	})
}

// A session is idle at the partner, too, while no client listens here: the next one gets its place.
func TestAnIdleSessionGivesWayAtThePartner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLinked(t, new(attentive), 16)
		open := func() string {
			time.Sleep(time.Second)
			return l.call(t, "", "initialize", mcpmap.Events{}).Session
		}
		heard := open()
		listening, err := rpc.Open(t.Context(), l.asker, mcpmap.MethodRPCListen, mcpmap.SessionParams("b/tools", heard))
		if err != nil {
			t.Fatal(err)
		}
		defer listening.Close()
		var idle []string
		for range 2 * maxThere {
			idle = append(idle, open())
			synctest.Wait()
		}
		l.call(t, heard, "tools/list", mcpmap.Events{})
		l.call(t, idle[len(idle)-1], "tools/list", mcpmap.Events{})
		result, err := l.client.Do(t.Context(), &mcpmap.Call{Target: "b/tools", Session: idle[0], Octets: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)})
		if err != nil || result.Status != 404 {
			t.Errorf("the oldest session answers %+v, %v", result, err)
		}
	})
}

// A caller has spent its share of the streams: the next request is refused soon, and the refusal names
// the partner. The client may try again.
func TestRS31ARequestWaitsForAStreamForFiveSecondsAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLinked(t, new(attentive), 8)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		hang := func(n int) {
			for range n {
				go func() { _, _ = rpc.Call(ctx, l.up.Session, "hang", nil) }()
			}
			for range 3 {
				_, _ = l.Ready(t.Context()) // as for a message
				time.Sleep(3 * time.Second)
			}
		}
		for i, more := range []int{6, 1, 1} { // of 8
			hang(more)
			if n := l.crowded.Load(); n != int32(min(i, 1)) {
				t.Errorf("%d warnings at %+v", n, l.up.Session.Streams())
			}
		}
		if streams := l.Status().Streams; streams == nil || streams.Used != 7 || streams.Capacity != 7 {
			t.Errorf("the status has %+v", streams)
		}
		began := time.Now()
		result, err := l.client.Do(t.Context(), &mcpmap.Call{Target: "b/tools", Octets: []byte(
			`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)})
		if err != nil {
			t.Fatal(err)
		}
		const want = `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no stream to partner b was free for 5s; it permits 8, which callers share",` +
			`"data":{"code":"ERR_RATE_LIMIT_EXCEEDED","retryable":true}}}`
		if took := time.Since(began); took > 5*time.Second || string(result.Octets) != want {
			t.Errorf("after %v: %s", took, result.Octets)
		}
		cancel()
		synctest.Wait()
	})
}
