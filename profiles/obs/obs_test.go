package obs_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/profiles/profiletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// another is a second parent.
const another = "00-11111111111111111111111111111111-2222222222222222-00"

func fresh(testing.TB) *profiles.Profile { return obs.New(obs.Options{}).Profile() }

func set(parent, state string, ids obs.IDs) []byte {
	m := obs.Set{Fields: obs.Fields{
		Traceparent: []byte(parent), Tracestate: []byte(state), MsgID: ids.MsgID, TaskID: ids.TaskID, RPCID: ids.RPCID,
	}}
	return m.Append(nil)
}

var contract = []profiletest.Case{
	{Name: "set", Type: obs.TypeSet, Payload: set(parent, " a=1 , b=2", obs.IDs{MsgID: []byte("m"), TaskID: []byte("t"), RPCID: []byte("r")})},
	{Name: "set of ids only", Type: obs.TypeSet, Payload: set("", "", obs.IDs{TaskID: []byte("t")})},
	{Name: "set of nothing", Type: obs.TypeSet, Payload: []byte("\x0a\x00")},
	{Name: "get", Type: obs.TypeGet, Payload: []byte("\x12\x00"), Answers: []uint64{obs.TypeDoc}},
	{Name: "get of the current", Type: obs.TypeGet, Payload: []byte("\x12\x02\x08\x01"), Answers: []uint64{obs.TypeDoc}},
	{Name: "unsolicited doc", Type: obs.TypeDoc, Payload: []byte("\x1a\x00")},
	{Name: "unsolicited err", Type: obs.TypeErr, Payload: (&obs.Err{Code: []byte("c")}).Append(nil)},
}

func TestContract(t *testing.T) { profiletest.Run(t, fresh, contract...) }

func FuzzServe(f *testing.F) { profiletest.Fuzz(f, fresh, contract...) }

// FuzzCheck: what passes has the shape that the recommendation says, and a
// SET of it comes back octet for octet.
func FuzzCheck(f *testing.F) {
	f.Add(parent, "a=1")
	for _, p := range badParents {
		f.Add(p, "")
	}
	f.Fuzz(func(t *testing.T, p, state string) {
		if p == "" || obs.Check(profiles.Trace{Parent: p, State: state}) != nil {
			return
		}
		if len(p) < 55 || strings.ToLower(p[:55]) != p[:55] || strings.Count(p[:55], "-") != 3 || p[:2] == "00" && len(p) != 55 {
			t.Errorf("accepted %q", p)
		}
		h := profiletest.New(t, fresh(t))
		payload := set(p, state, obs.IDs{})
		if err := h.Serve(obs.TypeSet, payload).Err(); err != nil {
			t.Fatal(err)
		}
		want := slices.Concat([]byte{obs.TypeDoc<<3 | 2}, payload[1:])
		if got := h.Serve(obs.TypeGet, []byte("\x12\x00")).Answers()[0].Payload; !bytes.Equal(got, want) {
			t.Errorf("%q came back as %q", want, got)
		}
	})
}

// doc returns what GET answers.
func doc(t *testing.T, h *profiletest.Harness) []byte {
	t.Helper()
	answers := h.Serve(obs.TypeGet, []byte("\x12\x00")).Answers()
	if len(answers) != 1 || answers[0].MsgType != obs.TypeDoc {
		t.Fatalf("GET is answered with %v", answers)
	}
	return answers[0].Payload
}

func TestGetBeforeAnySetIsAnEmptyDoc(t *testing.T) {
	if got := doc(t, profiletest.New(t, fresh(t))); string(got) != "\x1a\x00" {
		t.Errorf("DOC %x, want 1a00", got)
	}
}

func TestGetReturnsTheLastSetOctetForOctet(t *testing.T) {
	h := profiletest.New(t, fresh(t))
	ids := obs.IDs{MsgID: []byte{0, 1, 0xff}, TaskID: []byte("task"), RPCID: []byte("call")}
	for _, payload := range [][]byte{
		set(parent, "zzz=1,  aaa=2 ,,odd;stuff=\t3, aaa=4 ", obs.IDs{}),
		set(another, "", ids),
		set("", "", obs.IDs{MsgID: ids.MsgID}),
		set("01"+parent[2:]+"-later", strings.Repeat("x", obs.MaxTracestate), obs.IDs{TaskID: bytes.Repeat([]byte{7}, obs.MaxID)}),
		set("", "", obs.IDs{}),
	} {
		x := h.Serve(obs.TypeSet, payload)
		if err := x.Err(); err != nil || len(x.Answers()) != 0 {
			t.Fatalf("SET %q: %v, %d answers", payload, err, len(x.Answers()))
		}
		// The two have the same fields under another member.
		want := slices.Concat([]byte{obs.TypeDoc<<3 | 2}, payload[1:])
		if got := doc(t, h); !bytes.Equal(got, want) {
			t.Errorf("DOC %q, want %q", got, want)
		}
	}
}

// PR-13, the half of OBS: a bad trace context is refused and changes nothing.
func TestPR13ABadTraceContextIsRefusedAndChangesNothing(t *testing.T) {
	h := profiletest.New(t, fresh(t))
	if err := h.Serve(obs.TypeSet, set(parent, "a=1", obs.IDs{})).Err(); err != nil {
		t.Fatal(err)
	}
	before := doc(t, h)
	refused := func(name string, payload []byte, code string) {
		t.Helper()
		x := h.Serve(obs.TypeSet, payload)
		err := x.Err()
		if err == nil || err.Code != profiles.InvalidProfilePayload || err.Domain {
			t.Fatalf("%s: %v", name, err)
		}
		answer, ok := fresh(t).Refusal(x.Request(), err)
		var m obs.Err
		if !ok || answer.MsgType != obs.TypeErr || m.Decode(answer.Payload) != nil || string(m.Code) != code || len(m.Message) == 0 {
			t.Errorf("%s: answered with %v, %q %q, want %s", name, ok, m.Code, m.Message, code)
		}
		if after := doc(t, h); !bytes.Equal(after, before) {
			t.Errorf("%s: the context is now %q", name, after)
		}
	}
	for name, p := range badParents {
		refused(name, set(p, "", obs.IDs{}), obs.CodeTraceparent)
	}
	refused("tracestate alone", set("", "a=1", obs.IDs{}), obs.CodeTraceparent)
	refused("a tracestate of 100 KiB", set(parent, strings.Repeat("a=1,", 25<<10), obs.IDs{}), obs.CodeTracestate)
	refused("a header in the tracestate", set(parent, "a=1\r\nx: y", obs.IDs{}), obs.CodeTracestate)
	refused("a traceparent of 100 KiB", set("01"+parent[2:]+"-"+strings.Repeat("a", 100<<10), "", obs.IDs{}), obs.CodeTraceparent)
	refused("a long id", set(parent, "", obs.IDs{TaskID: make([]byte, obs.MaxID+1)}), "INVALID_PROFILE_PAYLOAD")
	refused("a traceparent that is not UTF-8", set("\xff", "", obs.IDs{}), "INVALID_PROFILE_PAYLOAD")
	refused("a torn message", set(parent, "", obs.IDs{})[:20], "INVALID_PROFILE_PAYLOAD")
}

// rules let a peer do what they say.
type rules map[string]bool

func (r rules) Allowed(identity, profile, operation, name string) bool {
	return r[strings.Join([]string{identity, profile, operation, name}, " ")]
}

func TestAccessIsAskedForEachOperation(t *testing.T) {
	const who = "spiffe://profiletest/peer obs "
	for operation, payload := range map[string][]byte{"set": set(parent, "", obs.IDs{}), "get": []byte("\x12\x00")} {
		msgType := map[string]uint64{"set": obs.TypeSet, "get": obs.TypeGet}[operation]
		for _, allowed := range []bool{true, false} {
			p := obs.New(obs.Options{Access: rules{who + operation + " ": allowed}}).Profile()
			x := profiletest.New(t, p).Serve(msgType, payload)
			if err := x.Err(); (err == nil) != allowed || err != nil && err.Code != profiles.SecurityPolicy {
				t.Errorf("%s, allowed %v: %v", operation, allowed, err)
			} else if err != nil {
				if answer, ok := p.Refusal(x.Request(), err); !ok || !bytes.Contains(answer.Payload, []byte("SECURITY_POLICY")) {
					t.Errorf("%s: answered with %q", operation, answer.Payload)
				}
			}
		}
	}
}

func TestRefusalsDoNotAnswerAnswersNorWhatIsInFlight(t *testing.T) {
	p := fresh(t)
	for _, test := range []struct {
		msgType uint64
		code    profiles.Code
		want    bool
	}{
		{obs.TypeSet, profiles.InvalidProfilePayload, true},
		{obs.TypeGet, profiles.RateLimitExceeded, true},
		{obs.TypeDoc, profiles.InvalidProfilePayload, false},
		{obs.TypeErr, profiles.InvalidProfilePayload, false},
		{obs.TypeSet, profiles.DuplicateMsgID, false},
	} {
		req := &profiles.Request{Envelope: e1.Envelope{MsgType: test.msgType}}
		if _, ok := p.Refusal(req, &profiles.Error{Code: test.code}); ok != test.want {
			t.Errorf("type %d, %v: answered %v", test.msgType, test.code, ok)
		}
	}
}

// peer is a session that ends when the test says so.
type peer struct {
	profiles.Session
	ctx      context.Context
	end      context.CancelFunc
	identity string // or the one of most tests
}

func newPeer(t *testing.T) *peer {
	p := new(peer)
	p.ctx, p.end = context.WithCancel(context.Background())
	t.Cleanup(p.end)
	return p
}

func (p *peer) Context() context.Context { return p.ctx }
func (p *peer) Peer() *profiles.Peer {
	return &profiles.Peer{Identity: cmp.Or(p.identity, "spiffe://test/peer")}
}

// unwitnessed keeps no account of what an exchange is about.
type unwitnessed struct{ profiles.Exchange }

func (unwitnessed) About(profiles.Subject) {}

// set has a peer send a SET.
func (p *peer) set(t testing.TB, c *obs.Contexts, parent string, ids obs.IDs) {
	t.Helper()
	p.setWith(t, c, parent, "", ids)
}

func (p *peer) setWith(t testing.TB, c *obs.Contexts, parent, state string, ids obs.IDs) {
	t.Helper()
	req := &profiles.Request{Session: p, Exchange: unwitnessed{}, Envelope: e1.Envelope{ProfileID: obs.ProfileID, MsgType: obs.TypeSet, Payload: set(parent, state, ids)}}
	if err := c.Profile().Handler.Serve(context.Background(), req, nil); err != nil {
		t.Fatal(err)
	}
}

func TestAContextBelongsToTheExchangeThatItsIDsName(t *testing.T) {
	c, p := obs.New(obs.Options{}), newPeer(t)
	want := func(name, msgID, lifecycle, want string) {
		t.Helper()
		got, ok := c.Trace(p, []byte(msgID), []byte(lifecycle))
		if got.Parent != want || ok != (want != "") {
			t.Errorf("%s: %q, %v, want %q", name, got.Parent, ok, want)
		}
	}
	of := func(n int) string { return fmt.Sprintf("00-%032d-%016d-01", n, n) }
	want("before any SET", "m1", "t1", "")
	p.set(t, c, of(1), obs.IDs{MsgID: []byte("m1")})
	want("bound to the msg_id", "m1", "", of(1))
	want("another msg_id", "m2", "", "")
	want("a lifecycle of that name", "m2", "m1", "")
	p.set(t, c, of(2), obs.IDs{TaskID: []byte("t1")})
	p.set(t, c, of(3), obs.IDs{RPCID: []byte("r1")})
	want("bound to the task_id", "m2", "t1", of(2))
	want("bound to the rpc_id", "m2", "r1", of(3))
	want("the msg_id goes first", "m1", "t1", of(1))
	want("a msg_id of that name", "t1", "", "")
	p.set(t, c, of(4), obs.IDs{})
	want("bound to the connection", "m2", "", of(4))
	want("an exchange of its own goes first", "m2", "t1", of(2))
	p.set(t, c, of(5), obs.IDs{MsgID: []byte("m5"), TaskID: []byte("t5"), RPCID: []byte("r5")})
	want("bound to all of them", "m5", "", of(5))
	want("bound to all of them", "", "t5", of(5))
	want("bound to all of them", "", "r5", of(5))
	p.set(t, c, of(6), obs.IDs{TaskID: []byte("t5")})
	want("bound again", "", "t5", of(6))
	p.set(t, c, "", obs.IDs{TaskID: []byte("t5")})
	want("taken back", "", "t5", of(4))
	p.set(t, c, "", obs.IDs{})
	want("the connection's taken back", "", "t5", "")
	want("what has its own keeps it", "", "r5", of(5))
}

// PR-13: never shared between connections, and gone with them.
func TestPR13AContextIsSeenOnItsConnectionOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p, q := obs.New(obs.Options{}), newPeer(t), newPeer(t)
		p.set(t, c, parent, obs.IDs{})
		p.set(t, c, parent, obs.IDs{MsgID: []byte("m"), TaskID: []byte("t")})
		q.set(t, c, another, obs.IDs{MsgID: []byte("other")})
		if got, ok := c.Trace(q, []byte("m"), []byte("t")); ok {
			t.Errorf("another connection sees %q", got.Parent)
		}
		p.end()
		synctest.Wait()
		if got, ok := c.Trace(p, []byte("m"), nil); ok {
			t.Errorf("after its end the connection has %q", got.Parent)
		}
		if got, _ := c.Trace(q, []byte("other"), nil); got.Parent != another {
			t.Errorf("the other one has %q", got.Parent)
		}
		p.set(t, c, parent, obs.IDs{}) // read from a buffer after the end
		synctest.Wait()
		if _, ok := c.Trace(p, nil, nil); ok {
			t.Error("a SET after the end of the connection stays")
		}
		if n := c.Connections(); n != 1 {
			t.Errorf("%d connections are remembered, want 1", n)
		}
	})
}

// RS-08, the part of OBS: distinct ids without end find a table of fixed size.
func TestRS08TheExchangesOfAConnectionAreBounded(t *testing.T) {
	c, p := obs.New(obs.Options{}), newPeer(t)
	id := func(n int) []byte { return fmt.Appendf(nil, "msg-%d", n) }
	const bound, many = 1024, 20_000
	for n := range many {
		p.set(t, c, parent, obs.IDs{MsgID: id(n)})
		_, oldest := c.Trace(p, id(max(0, n-bound+1)), nil)
		_, older := c.Trace(p, id(n-bound), nil)
		if !oldest || older {
			t.Fatalf("after %d: the last %d are remembered %v, one before them %v", n+1, bound, oldest, older)
		}
	}
	// Bound again it is the latest.
	p.set(t, c, another, obs.IDs{MsgID: id(many - bound)})
	p.set(t, c, parent, obs.IDs{MsgID: []byte("one more")})
	if got, _ := c.Trace(p, id(many-bound), nil); got.Parent != another {
		t.Errorf("what was bound again is forgotten: %q", got.Parent)
	}
	if _, ok := c.Trace(p, id(many-bound+1), nil); ok {
		t.Error("what is oldest now is not")
	}
	if n := c.Octets(); n > 1<<20 {
		t.Errorf("%d octets", n)
	}
}

func TestRS08TheOctetsOfAConnectionAreBounded(t *testing.T) {
	c, p := obs.New(obs.Options{}), newPeer(t)
	big := strings.Repeat("x", obs.MaxTracestate)
	for n := range 2000 {
		p.setWith(t, c, parent, big, obs.IDs{RPCID: fmt.Appendf(nil, "%d", n)})
		if got := c.Octets(); got > 1<<20 {
			t.Fatalf("%d octets after %d", got, n+1)
		}
		if got, _ := c.Trace(p, nil, fmt.Appendf(nil, "%d", n)); got.State != big {
			t.Fatal("the latest is not remembered")
		}
	}
	if n := c.Octets(); n < 1<<19 {
		t.Errorf("only %d octets are used", n)
	}
}

// The contexts of all connections have one bound. One identity sets more of them than another.
func TestRS32ContextsOfOneIdentityLeaveRoomForAnother(t *testing.T) {
	state := strings.Repeat("x", obs.MaxTracestate)
	remembered := func(flooded bool) (n int) {
		c := obs.New(obs.Options{})
		c.Bound(1 << 20)
		id := func(n int) []byte { return fmt.Appendf(nil, "%d", n) }
		alice, mallory := newPeer(t), newPeer(t)
		alice.identity, mallory.identity = fairtest.Alice, fairtest.Mallory
		if flooded {
			for n := range 400 {
				mallory.setWith(t, c, parent, state, obs.IDs{RPCID: id(n)})
			}
		}
		for n := range 400 {
			alice.setWith(t, c, parent, state, obs.IDs{RPCID: id(n)})
			for k := range 3 {
				if flooded {
					mallory.setWith(t, c, parent, state, obs.IDs{RPCID: id(3*n + k)})
				}
			}
		}
		if used := c.Octets(); used > 1<<20 {
			t.Errorf("%d octets are kept", used)
		}
		for i := range 400 {
			if _, ok := c.Trace(alice, nil, id(i)); ok {
				n++
			}
		}
		return n
	}
	fairtest.Row(t, "obs: octets of contexts", "contexts", remembered(false), remembered(true))
}

func TestRS08TheOctetsOfAllConnectionsAreBounded(t *testing.T) {
	effort.Unwatched(t)
	synctest.Test(t, theOctetsOfAllConnectionsAreBounded)
}

func theOctetsOfAllConnectionsAreBounded(t *testing.T) {
	c := obs.New(obs.Options{})
	big := strings.Repeat("x", obs.MaxTracestate)
	var peers []*peer
	for range 100 {
		p := newPeer(t)
		peers = append(peers, p)
		for n := range 300 {
			p.setWith(t, c, parent, big, obs.IDs{RPCID: fmt.Appendf(nil, "%d", n)})
		}
		if got, ok := c.Trace(p, nil, []byte("299")); !ok || got.State != big {
			t.Fatal("the latest is not remembered")
		}
	}
	if n := c.Octets(); n > 65<<20 {
		t.Errorf("%d octets", n)
	}
	for _, p := range peers {
		p.end()
	}
	synctest.Wait()
	if n := c.Octets(); n != 0 {
		t.Errorf("%d octets after all connections have ended", n)
	}
}

func TestLookingUpDoesNotAllocate(t *testing.T) {
	c, p, q := obs.New(obs.Options{}), newPeer(t), newPeer(t)
	pr := &profiles.Profile{Lifecycle: func(env *e1.Envelope) []byte { return env.Payload }}
	req := &profiles.Request{Session: p, Envelope: e1.Envelope{MsgID: []byte("0123456789abcdef"), Payload: []byte("task")}}
	look := func() {
		c.Of(pr, req)
		c.Trace(p, req.MsgID, req.Payload)
	}
	if n := testing.AllocsPerRun(100, look); n != 0 {
		t.Errorf("nothing set: %v allocations", n)
	}
	q.set(t, c, parent, obs.IDs{})
	if n := testing.AllocsPerRun(100, look); n != 0 {
		t.Errorf("nothing set here: %v allocations", n)
	}
	p.set(t, c, parent, obs.IDs{TaskID: []byte("task")})
	if n := testing.AllocsPerRun(100, look); n != 0 {
		t.Errorf("bound: %v allocations", n)
	}
	if got, _ := c.Of(pr, req); got.Parent != parent {
		t.Errorf("found %q", got.Parent)
	}
}

func TestAttachGivesHandlersTheirContext(t *testing.T) {
	c, p := obs.New(obs.Options{}), newPeer(t)
	ctx := context.Background()
	pr := &profiles.Profile{Lifecycle: func(*e1.Envelope) []byte { panic("broken") }}
	req := &profiles.Request{Session: p, Envelope: e1.Envelope{MsgID: []byte("m")}}
	if got := c.Attach(ctx, pr, req); got != ctx {
		t.Error("a context without a trace is another one")
	}
	p.setWith(t, c, parent, " a=1 ", obs.IDs{TaskID: []byte("t")})
	if got := c.Attach(ctx, pr, req); got != ctx { // whose lifecycle cannot be read
		t.Error("a context without a trace is another one")
	}
	pr.Lifecycle = func(*e1.Envelope) []byte { return []byte("t") }
	if got := profiles.TraceOf(c.Attach(ctx, pr, req)); got != (profiles.Trace{Parent: parent, State: " a=1 "}) {
		t.Errorf("the handler has %+v", got)
	}
}

func TestContextsMayBeSetAndReadAtOnce(t *testing.T) {
	c, p := obs.New(obs.Options{}), newPeer(t)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for n := range 250 { // together fewer than are kept
				p.set(t, c, parent, obs.IDs{MsgID: fmt.Appendf(nil, "%d/%d", g, n)})
				if got, ok := c.Trace(p, fmt.Appendf(nil, "%d/%d", g, n), nil); !ok || got.Parent != parent {
					t.Error("not found")
				}
			}
		})
	}
	wg.Wait()
}
