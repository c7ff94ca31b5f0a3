package stranger_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/test/stranger"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

const (
	self  = "spiffe://a.example/swpd"
	other = "spiffe://stranger.example/peer"
	user  = "spiffe://a.example/user"
)

// office is an endpoint as swpd has it, with a partner and peers that dial.
type office struct {
	t         *testing.T
	ca        *transporttest.CA
	ep        *endpoint.Endpoint
	set       *all.Set
	directory partner.Directory
}

// here answers every request with its method.
type here struct{}

func (here) Targets() ([]string, string) { return []string{"here"}, "here" }

func (h here) Server(name string) (mcpmap.Server, bool) { return h, name == "here" }

func (here) Do(x *mcpmap.Exchange) {
	x.Finish(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"here":%q}}`, x.Message.ID(), x.Message.Method()))
}

func (here) Connect(mcpmap.Counterpart) (mcpmap.Conversation, error) {
	return nil, errors.New("this server has no sessions")
}

// count is a worker that tells of its progress at long intervals.
func count(ctx context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
	for i := range 3 {
		if err := event(fmt.Sprintf("step %d", i), nil); err != nil {
			return nil, err
		}
		select {
		case <-time.After(10 * time.Minute):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return append([]byte("counted "), t.Input...), nil
}

func newOffice(t *testing.T) *office {
	t.Helper()
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := &office{t: t, ca: transporttest.NewCA(t)}
	o.set, err = all.New(all.Options{
		Identity: self, Partner: o.directory.Asked, Hop: o.directory.Hop,
		MCP: mcpmap.Options{Backend: &partner.Backend{
			Local: here{}, Directory: &o.directory, Client: func(s profiles.Session) *mcpmap.Client { return o.set.MCP.Client(s) },
		}},
		A2A:   a2a.Options{Store: db, Deadline: 12 * time.Hour, Workers: []a2a.Registration{{Kinds: []string{"count"}, Worker: a2a.WorkerFunc(count)}}},
		Hints: policyhint.Options{Targets: careful{}},
		RPC:   rpc.Options{Resolve: o.directory.Method},
	})
	if err != nil {
		t.Fatal(err)
	}
	o.ep, err = endpoint.New(endpoint.Options{
		Registry: o.set.Registry, Tracer: endpoint.ContextFunc(o.set.Carriers.Attach), Observer: endpoint.Discard,
		Identity: func() string { return self }, Reserved: true, Ask: rpc.Acquaint,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = o.ep.Close()
		o.set.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

// careful declares of everything that it keeps what a hint may ask.
type careful struct{}

func (careful) Target(string, string) (*policyhint.Target, bool) {
	return &policyhint.Target{PII: new(bool)}, true
}

// strangers returns the two ends of a connection: TLS 1.3 with a certificate on each side,
// over a pipe. The peer is the server, or the client.
func (o *office) strangers(listens bool) (ours transport.Conn, theirs net.Conn) {
	o.t.Helper()
	near, far := net.Pipe()
	config := func(identity string) *tls.Config {
		cert := o.ca.Issue(o.t, transporttest.Named(identity))
		return &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*cert}, RootCAs: o.ca.Pool(), ClientCAs: o.ca.Pool(),
			ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"swp/1"}, ServerName: "127.0.0.1",
			SessionTicketsDisabled: true, InsecureSkipVerify: true, //nolint:gosec // identities are URIs; who is who is no matter here
		}
	}
	mine, its := tls.Client(near, config(self)), tls.Server(far, config(other))
	if !listens {
		mine, its = tls.Server(near, config(self)), tls.Client(far, config(other))
	}
	shaken := make(chan error, 1)
	go func() { shaken <- its.HandshakeContext(o.t.Context()) }()
	if err := errors.Join(mine.HandshakeContext(o.t.Context()), <-shaken); err != nil {
		o.t.Fatal(err)
	}
	return transport.NewNetConn(mine, &transport.Peer{Identity: other, Transport: "tls"}), its
}

// user connects somebody of the own organisation, who knows everything: what is done over
// the connection has a trace context and a hint.
func (o *office) user(mode profiles.Mode) *client.Client {
	o.t.Helper()
	near, far := transport.NewPipe(transport.PipeOptions{A: user, B: self})
	o.ep.Attach(far)
	c, err := client.Attach(near, client.Options{})
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(c.Close)
	trace := profiles.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	if err := c.SetTrace(o.t.Context(), trace, obs.IDs{}); err != nil {
		o.t.Fatal(err)
	}
	if err := policyhint.Put(o.t.Context(), c.Session, profiles.Hint{Key: policyhint.NoPII, Value: "true", Mode: mode, Scope: profiles.ScopeConnection}); err != nil {
		o.t.Fatal(err)
	}
	return c
}

// answers are what a stranger does for the other end: tasks take their time, and say
// nothing for most of it.
func answers() stranger.Options {
	return stranger.Options{
		Answer: func(method string, params json.RawMessage) any {
			return map[string]any{"method": method, "params": params}
		},
		Work: func(t *stranger.Task, event func(string)) ([]byte, error) {
			time.Sleep(7 * time.Minute)
			event("half of " + string(t.Input))
			time.Sleep(7 * time.Minute)
			if t.Kind == "fail" {
				return nil, errors.New("no more paper")
			}
			return append([]byte("done "), t.Input...), nil
		},
	}
}

// call calls a tool of MCP as a user.
func call(ctx context.Context, c *client.Client, target string) error {
	result, err := c.MCP().Do(ctx, &mcpmap.Call{Target: target, Octets: []byte(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"add","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)})
	if err != nil {
		return err
	}
	if fault := result.Error(); fault != nil {
		return fmt.Errorf("%s", fault)
	}
	if !bytes.Contains(result.Octets, []byte("tools/call")) {
		return fmt.Errorf("answer %s", result.Octets)
	}
	return nil
}

// task has a task carried out as a user.
func task(ctx context.Context, c *client.Client, kind, agent string) (output string, events []string, err error) {
	d, err := c.A2A().Send(ctx, c.Session, &a2a.Task{Kind: kind, Input: []byte("it")}, a2a.SendOptions{Agent: agent})
	if err != nil {
		return "", nil, err
	}
	defer d.Close()
	for {
		e, err := d.Recv(ctx)
		switch {
		case errors.Is(err, io.EOF) && d.Result().OK:
			return string(d.Result().Output), events, nil
		case errors.Is(err, io.EOF):
			return "", events, errors.New(d.Result().Reason)
		case err != nil:
			return "", events, err
		}
		events = append(events, e.Message)
	}
}

// day is eight hours of work: of the stranger, and of those who want something of it.
type day struct {
	*office
	peer *stranger.Peer
	name string // of the stranger, ahead of what it does
	mcp  bool   // it has MCP servers
}

// work is what happens in each hour; then there is an hour of nothing.
func (d *day) work() {
	d.t.Helper()
	ctx := d.t.Context()
	tasks := 0
	for hour := 0; hour < 8; hour += 2 {
		c := d.user(profiles.Should)
		if d.mcp {
			d.check("a call of the partner's server", call(ctx, c, "stranger"))
		}
		octets, err := d.peer.Call(ctx, "tools/call", map[string]any{"name": "add"})
		d.check("a call by the stranger", err)
		if !bytes.Contains(octets, []byte(`"here":"tools/call"`)) {
			d.t.Fatalf("hour %d: the stranger is answered %s", hour, octets)
		}
		output, events, err := task(ctx, c, d.name+"report", "")
		d.check("a task for the stranger", err)
		if output != "done it" || !strings.Contains(strings.Join(events, ","), "half of it") {
			d.t.Fatalf("hour %d: a task gave %q after %q", hour, output, events)
		}
		if _, _, err = task(ctx, c, d.name+"fail", ""); err == nil || err.Error() != "no more paper" {
			d.t.Fatalf("hour %d: a task that fails gave %v", hour, err)
		}
		tasks += 2
		result, err := d.peer.Send(ctx, "count", []byte("sheep"))
		d.check("a task of the stranger", err)
		if !result.OK || string(result.Output) != "counted sheep" || len(result.Events) < 3 {
			d.t.Fatalf("hour %d: a task of the stranger gave %+v", hour, result)
		}
		time.Sleep(time.Until(time.Now().Truncate(2 * time.Hour).Add(2 * time.Hour)))
		synctest.Wait()
	}
	if came := d.peer.Came(); came != tasks {
		d.t.Errorf("%d tasks were sent %d times", tasks, came)
	}
	select {
	case <-d.peer.Done():
		d.t.Errorf("the connection has ended: %v", d.peer.Err())
	default:
	}
}

func (d *day) check(what string, err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatalf("at %s, %s: %v", time.Now().Format(time.TimeOnly), what, err)
	}
}

// A must is not sent, and what it is about is not done. why is what its initiator is told.
func (d *day) must(kind, why string) {
	d.t.Helper()
	c := d.user(profiles.Must)
	began, came := time.Now(), d.peer.Came()
	_, _, err := task(d.t.Context(), c, kind, "")
	if err == nil || !strings.Contains(err.Error(), why) {
		d.t.Errorf("a task with a hint that is a MUST: %v", err)
	}
	if waited := time.Since(began); waited > 0 || d.peer.Came() != came {
		d.t.Errorf("it failed after %v, and %d tasks went out", waited, d.peer.Came()-came)
	}
}

const (
	mustUnknown    = "a hint is a MUST, and the next endpoint is not known to serve profile policyhint"
	mustUndeclared = "stopped by a policy hint: MUST no_pii for connection: UNDECLARED" // by the Handshake of the agent
)

// links makes the stranger a partner: with is what its entry says.
func (o *office) links(with partner.Options, dial func() transport.Conn) *partner.Link {
	o.t.Helper()
	with.Name, with.Identity, with.Self = "stranger", other, func() string { return self }
	with.Tasks, with.Deliveries, with.Carrier, with.Attach = o.set.A2A, o.set.Relay, o.set.Carriers, o.ep.Attach
	with.Tools = o.set.TOOLDISC
	if dial != nil {
		with.Addresses = []transport.Addr{{Transport: "tls", Host: "stranger.example", Port: 1}}
		with.Dial = func(context.Context, transport.Addr) (transport.Conn, error) { return dial(), nil }
	}
	link, err := partner.New(with)
	if err != nil {
		o.t.Fatal(err)
	}
	o.directory.Set([]*partner.Link{link})
	link.Start()
	o.t.Cleanup(link.Close)
	return link
}

var known = partner.Options{Profiles: []uint64{mcpmap.ProfileID, a2a.ProfileID}}

func TestAStrangerIsAPartnerForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		peers := make(chan *stranger.Peer, 10)
		link := o.links(known, func() transport.Conn {
			ours, theirs := o.strangers(true)
			peers <- stranger.New(theirs, answers())
			return ours
		})
		peer := <-peers
		if _, err := link.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		d := &day{office: o, peer: peer, name: "stranger/", mcp: true}
		d.work()
		d.must("stranger/report", mustUnknown)
		if _, err := rpc.Call(t.Context(), o.user(profiles.May).Session, "stranger/swp.ping", nil); err == nil {
			t.Error("a partner that serves no RPC has answered a call")
		}
		if s := link.Status(); s.Connects != 1 || len(peers) > 0 {
			t.Errorf("%d connections in a day", s.Connects)
		}
		link.Close()
		peer.Close()
	})
}

func TestAStrangerThatDialsIsAPartnerForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		link := o.links(known, nil)
		ours, theirs := o.strangers(false)
		peer := stranger.New(theirs, answers())
		link.Adopt(o.ep.Attach(ours))
		if _, err := link.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		d := &day{office: o, peer: peer, name: "stranger/", mcp: true}
		d.work()
		d.must("stranger/report", mustUnknown)
		link.Close()
		peer.Close()
	})
}

func TestAStrangerIsAnAgentForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		ours, theirs := o.strangers(false)
		peer := stranger.New(theirs, answers())
		o.ep.Attach(ours)
		if err := peer.Declare("clerk", "report", "fail"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		d := &day{office: o, peer: peer}
		if _, err := agdisc.Ask(t.Context(), o.user(profiles.May).Session, "clerk", ""); err == nil || !strings.Contains(err.Error(), "NOT_FOUND") {
			t.Errorf("the card of an agent that has none: %v", err)
		}
		d.work()
		d.must("report", mustUndeclared)
		peer.Close()
	})
}

// A partner of which the configuration says nothing is asked once. It then gets what it has
// itself sent messages of.
func TestAStrangerOfWhichNothingIsKnownIsKnownByWhatItSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		peers := make(chan *stranger.Peer, 10)
		link := o.links(partner.Options{}, func() transport.Conn {
			ours, theirs := o.strangers(true)
			peers <- stranger.New(theirs, answers())
			return ours
		})
		asked, peer := <-peers, <-peers
		if _, err := link.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if <-asked.Done(); !strings.Contains(asked.Err().Error(), "profile_id 12") {
			t.Errorf("the first connection has ended by %v", asked.Err())
		}
		began := time.Now()
		if err := call(t.Context(), o.user(profiles.Should), "stranger"); err == nil || !strings.Contains(err.Error(), "not known to serve profile mcp") {
			t.Errorf("a call of its server: %v", err)
		}
		if _, _, err := task(t.Context(), o.user(profiles.Should), "stranger/report", ""); err == nil || !strings.Contains(err.Error(), "not known to serve profile a2a") {
			t.Errorf("a task for it: %v", err)
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("they failed after %v", waited)
		}
		if _, err := peer.Call(t.Context(), "tools/call", map[string]any{}); err != nil {
			t.Fatal(err)
		}
		if err := peer.Declare("clerk"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		d := &day{office: o, peer: peer, name: "stranger/", mcp: true}
		d.work()
		if len(peers) > 0 {
			t.Error("it was dialled again")
		}
		link.Close()
		peer.Close()
	})
}

// An agent may wait for work longer than any other connection may be idle.
func TestAStrangerThatWaitsForWorkIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		ours, theirs := o.strangers(false)
		peer := stranger.New(theirs, answers())
		o.ep.Attach(ours)
		if err := peer.Declare("clerk", "report"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(7 * 24 * time.Hour)
		if output, _, err := task(t.Context(), o.user(profiles.Should), "report", "clerk"); err != nil || output != "done it" {
			t.Errorf("after a week: %q, %v", output, err)
		}
		peer.Close()
	})
}

// One that declares nothing, and whom nobody takes for a partner, is idle as others are.
func TestAStrangerThatDeclaresNothingIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		ours, theirs := o.strangers(false)
		peer := stranger.New(theirs, answers())
		o.ep.Attach(ours)
		if _, err := peer.Call(t.Context(), "ping", map[string]any{}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		<-peer.Done()
		if idle := time.Since(began); idle < 10*time.Minute || idle > 11*time.Minute || !errors.Is(peer.Err(), io.EOF) {
			t.Errorf("it was idle for %v, and ended by %v", idle, peer.Err())
		}
	})
}
