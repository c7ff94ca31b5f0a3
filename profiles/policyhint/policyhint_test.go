package policyhint_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/profiles/policyhint"
	"github.com/slimwire/swp/profiles/profiletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func fresh(testing.TB) *profiles.Profile { return policyhint.New(policyhint.Options{}).Profile() }

// constraint reads "MUST region=eu rpc:00"; without a scope it has none.
func constraint(text string) policyhint.Constraint {
	f := strings.Fields(text)
	key, value, _ := strings.Cut(f[1], "=")
	c := policyhint.Constraint{Key: []byte(key), Value: []byte(value), Mode: []byte(f[0])}
	if len(f) > 2 {
		c.Scope = []byte(f[2])
	}
	return c
}

func set(texts ...string) []byte {
	var m policyhint.Set
	for _, text := range texts {
		m.Constraints = append(m.Constraints, constraint(text))
	}
	return m.Append(nil)
}

var contract = []profiletest.Case{
	{Name: "set", Type: policyhint.TypeSet, Payload: set("MUST region=eu", "SHOULD x=y task:0a"), Answers: []uint64{policyhint.TypeAck}},
	{Name: "empty set", Type: policyhint.TypeSet, Payload: []byte("\x0a\x00"), Answers: []uint64{policyhint.TypeAck}},
	{Name: "unknown key", Type: policyhint.TypeSet, Payload: set("MUST x=y"), Answers: []uint64{policyhint.TypeViolation}},
	{Name: "violation", Type: policyhint.TypeViolation, Payload: (&policyhint.Violation{Key: []byte("k"), Scope: []byte("s"), Reason: []byte("r")}).Append(nil)},
	{Name: "unsolicited ack", Type: policyhint.TypeAck, Payload: (&policyhint.Ack{AckID: []byte{0xff}}).Append(nil)},
	{Name: "unsolicited err", Type: policyhint.TypeErr, Payload: (&policyhint.Err{Code: []byte("c")}).Append(nil)},
}

func TestContract(t *testing.T) { profiletest.Run(t, fresh, contract...) }

func FuzzServe(f *testing.F) { profiletest.Fuzz(f, fresh, contract...) }

// peer is a connection to Hints, without a network.
type peer struct {
	*profiletest.Harness
	t     *testing.T
	hints *policyhint.Hints
}

func newPeer(t *testing.T, opts policyhint.Options) *peer {
	h := policyhint.New(opts)
	return &peer{profiletest.New(t, h.Profile()), t, h}
}

// set sends a SET and returns "ACK", "VIOLATION key scope reason" or "ERR code".
func (p *peer) set(texts ...string) string {
	p.t.Helper()
	x := p.Serve(policyhint.TypeSet, set(texts...))
	if err := x.Err(); err != nil {
		env, ok := p.hints.Profile().Refusal(x.Request(), err)
		var m policyhint.Err
		if !ok || m.Decode(env.Payload) != nil {
			p.t.Fatalf("no POLICY_ERR for %v", err)
		}
		return "ERR " + string(m.Code)
	}
	answers := x.Answers()
	if len(answers) != 1 {
		p.t.Fatalf("answers %v", answers)
	}
	if answers[0].MsgType == policyhint.TypeAck {
		var m policyhint.Ack
		if err := m.Decode(answers[0].Payload); err != nil || string(m.AckID) != hex.EncodeToString(x.Request().MsgID) {
			p.t.Errorf("ack_id %q, %v, want the msg_id in hexadecimal", m.AckID, err)
		}
		return "ACK"
	}
	var m policyhint.Violation
	if err := m.Decode(answers[0].Payload); err != nil {
		p.t.Fatal(err)
	}
	return fmt.Sprintf("VIOLATION %s %s %s", m.Key, m.Scope, m.Reason)
}

// keyed is a profile whose lifecycles have the key that is in the payload.
func keyed(name string) *profiles.Profile {
	scopes := map[string]string{"a2a": profiles.ScopeTask, "rpc": profiles.ScopeRPC}
	return &profiles.Profile{Name: name, Scope: scopes[name], Lifecycle: func(env *e1.Envelope) []byte { return env.Payload }}
}

// forward sends the hints of ctx ahead of a message.
func forward(ctx context.Context, lane profiles.Lane, scope, name string, id []byte) error {
	_, err := policyhint.New(policyhint.Options{}).Forward(ctx, lane, &profiles.Onward{Name: name, Scope: scope, ID: id})
	return err
}

// of returns the hints for an action, as text.
func (p *peer) of(profile, lifecycle, name string) string {
	req := &profiles.Request{Session: p.Session(), Envelope: e1.Envelope{Payload: []byte(lifecycle)}}
	return text(profiles.HintsOf(p.hints.Attach(context.Background(), keyed(profile), req), name))
}

func text(hints []profiles.Hint) string {
	var list []string
	for _, h := range hints {
		list = append(list, fmt.Sprintf("%v %s=%s %s", h.Mode, h.Key, h.Value, h.Scope))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func (p *peer) want(profile, lifecycle, name, want string) {
	p.t.Helper()
	if got := p.of(profile, lifecycle, name); got != want {
		p.t.Errorf("%s %q %s has hints %q, want %q", profile, lifecycle, name, got, want)
	}
}

func (p *peer) expect(want string, texts ...string) {
	p.t.Helper()
	if got := p.set(texts...); got != want {
		p.t.Errorf("SET %q is answered with %s, want %s", texts, got, want)
	}
}

func TestHintsHoldInTheirScopes(t *testing.T) {
	p := newPeer(t, policyhint.Options{})
	p.want("rpc", "\x01", "m", "")
	p.expect("ACK", "MUST region=eu", "SHOULD cost_limit=1 rpc:01", "MAY no_pii=true task:01", "SHOULD x=y target:files")
	p.want("rpc", "\x01", "m", "MUST region=eu connection, SHOULD cost_limit=1 rpc:01")
	p.want("rpc", "\x02", "m", "MUST region=eu connection")
	p.want("a2a", "\x01", "k", "MAY no_pii=true task:01, MUST region=eu connection")
	p.want("mcp", "\x01", "files", "MUST region=eu connection, SHOULD x=y target:files")
	p.want("mcp", "", "other", "MUST region=eu connection")
}

func TestHintsBelongToTheirConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := policyhint.New(policyhint.Options{})
		registry, err := profiles.NewRegistry(h.Profile())
		if err != nil {
			t.Fatal(err)
		}
		mine, err := profiles.NewRegistry(fresh(t))
		if err != nil {
			t.Fatal(err)
		}
		a, x := profiletest.Pair("a", mine, "b", registry, profiletest.SessionOptions{})
		b, y := profiletest.Pair("a", mine, "b", registry, profiletest.SessionOptions{})
		if err := policyhint.Put(t.Context(), a, profiles.Hint{Key: "region", Value: "eu", Mode: profiles.Must}); err != nil {
			t.Fatal(err)
		}
		see := func(s profiles.Session) string {
			return text(profiles.HintsOf(h.Attach(t.Context(), keyed("mcp"), &profiles.Request{Session: s}), "x"))
		}
		if got, other := see(x), see(y); got != "MUST region=eu connection" || other != "" {
			t.Errorf("hints %q, and %q on the other connection", got, other)
		}
		if h.Octets() == 0 || h.Connections() != 1 {
			t.Errorf("%d octets of %d connections", h.Octets(), h.Connections())
		}
		for _, s := range []*profiletest.Session{a, x, b, y} {
			s.Close()
			s.Wait()
		}
		synctest.Wait()
		if h.Octets() != 0 || h.Connections() != 0 {
			t.Errorf("%d octets of %d connections are left", h.Octets(), h.Connections())
		}
	})
}

// PR-13, the half of POLICYHINT.
func TestPR13HintsAreSetAllOrNone(t *testing.T) {
	p := newPeer(t, policyhint.Options{})
	const before = "MUST region=eu connection"
	p.expect("ACK", "MUST region=eu")
	p.expect("VIOLATION colour connection UNKNOWN_KEY", "MUST no_pii=true", "MUST colour=red", "SHOULD cost_limit=1")
	p.want("mcp", "", "x", before)
	p.expect("VIOLATION region connection CONFLICT", "MUST no_pii=true", "MUST region=us", "SHOULD cost_limit=1")
	p.want("mcp", "", "x", before)
	p.expect("VIOLATION cost_limit task:0a CONFLICT", "MUST cost_limit=1 task:0a", "MUST cost_limit=2 task:0A")
	p.want("a2a", "\x0a", "x", before)
	p.expect("ERR INVALID_SCOPE", "MUST no_pii=true", "MUST region=us everywhere")
	p.want("mcp", "", "x", before)
	p.expect("ERR INVALID_PROFILE_PAYLOAD", "MUST no_pii=true", "MUST cost_limit=cheap")
	p.expect("ERR INVALID_PROFILE_PAYLOAD", "MUST no_pii=true", "PERHAPS region=us")
	p.want("mcp", "", "x", before)

	// The same value is no conflict, nor is another scope.
	p.expect("ACK", "MUST region=eu", "MUST region=us target:far", "MUST region=us task:0a")
	p.want("mcp", "", "far", before+", MUST region=us target:far")
}

func TestPR13UnknownKeysAreForThoseWhoKnowThem(t *testing.T) {
	p := newPeer(t, policyhint.Options{})
	p.expect("VIOLATION colour rpc:07 UNKNOWN_KEY", "MUST colour=red rpc:07")
	p.expect("ACK", "SHOULD colour=red")
	p.expect("ACK", "MAY shape=round")
	p.expect("VIOLATION Region connection UNKNOWN_KEY", "MUST Region=eu")
	p.want("mcp", "", "x", "MAY shape=round connection, SHOULD colour=red connection")
}

func TestPR13AWeakerModeNeverOverrides(t *testing.T) {
	for _, test := range []struct{ first, second, want string }{
		{"MUST region=eu", "SHOULD region=us", "MUST region=eu connection"},
		{"MUST region=eu", "MAY region=us", "MUST region=eu connection"},
		{"SHOULD region=eu", "MAY region=us", "SHOULD region=eu connection"},
		{"SHOULD region=eu", "MUST region=us", "MUST region=us connection"},
		{"MAY region=eu", "SHOULD region=us", "SHOULD region=us connection"},
		{"MAY region=eu", "MAY region=us", "MAY region=us connection"},
		{"SHOULD region=eu", "SHOULD region=us", "SHOULD region=us connection"},
		{"MUST region=eu", "SHOULD region=us target:x", "MUST region=eu connection, SHOULD region=us target:x"},
	} {
		p := newPeer(t, policyhint.Options{})
		p.expect("ACK", test.first)
		p.expect("ACK", test.second)
		p.want("mcp", "", "x", test.want)
		p = newPeer(t, policyhint.Options{})
		p.expect("ACK", test.first, test.second)
		p.want("mcp", "", "x", test.want)
	}
}

// Whatever is set in whatever order, the outcome is that of the rules said in
// another way: of each key and scope the strongest mode that was acknowledged
// counts, and with MUST the first value.
func TestPR13PrecedenceHoldsForAnySequence(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 200 {
		p := newPeer(t, policyhint.Options{})
		best := make(map[string]string) // by key and scope: mode and value
		for range 12 {
			key := []string{"region", "no_pii", "colour"}[r.IntN(3)]
			value := map[string][]string{"region": {"eu", "us"}, "no_pii": {"true", "false"}, "colour": {"red", "blue"}}[key][r.IntN(2)]
			mode := []string{"MAY", "SHOULD", "MUST"}[r.IntN(3)]
			scope := []string{"connection", "target:x"}[r.IntN(2)]
			at := key + " " + scope
			oldMode, oldValue, there := strings.Cut(best[at], " ")
			want := "ACK"
			rank := map[string]int{"MAY": 0, "SHOULD": 1, "MUST": 2}
			switch {
			case mode == "MUST" && key == "colour":
				want = "VIOLATION " + at + " UNKNOWN_KEY"
			case there && mode == "MUST" && oldMode == "MUST" && value != oldValue:
				want = "VIOLATION " + at + " CONFLICT"
			case !there || rank[mode] >= rank[oldMode]:
				best[at] = mode + " " + value
			}
			p.expect(want, mode+" "+key+"="+value+" "+scope)
		}
		var list []string
		for at, v := range best {
			key, scope, _ := strings.Cut(at, " ")
			mode, value, _ := strings.Cut(v, " ")
			list = append(list, mode+" "+key+"="+value+" "+scope)
		}
		slices.Sort(list)
		p.want("mcp", "", "x", strings.Join(list, ", "))
	}
}

// PR-13 and RS-06: the constraints of a SET are counted first.
func TestPR13RS06ConstraintsAreCountedBeforeTheyAreRead(t *testing.T) {
	p := newPeer(t, policyhint.Options{})
	many := make([]string, policyhint.MaxConstraints)
	for i := range many {
		many[i] = fmt.Sprintf("MAY k%d=v", i)
	}
	p.expect("ACK", many...)
	p.expect("ERR INVALID_PROFILE_PAYLOAD", slices.Concat(many, []string{"MAY one=more"})...)
	flood := make([]byte, 0, 8<<20)
	for len(flood) < 8<<20-16<<10 {
		flood = append(flood, 0x0a, 0)
	}
	payload := append(p1.AppendHeader(nil, policyhint.TypeSet, len(flood)), flood...)
	var m policyhint.Set
	if allocs := testing.AllocsPerRun(1, func() {
		if m.Decode(payload) == nil {
			t.Error("accepted")
		}
	}); allocs > 10 {
		t.Errorf("%v allocations to refuse it", allocs)
	}
	if err := p.Serve(policyhint.TypeSet, payload).Err(); err == nil || err.Detail != p1.DetailCount {
		t.Errorf("%v, want it refused by its count", err)
	}
}

// RS-08: what a connection can have kept is bounded, and nothing is forgotten
// that has yet to be kept.
func TestRS08HintsOfAConnectionAreBounded(t *testing.T) {
	p := newPeer(t, policyhint.Options{})
	for i := range 512 {
		p.expect("ACK", fmt.Sprintf("MUST region=eu rpc:%04x", i))
	}
	p.expect("ERR RATE_LIMIT_EXCEEDED", "MUST region=eu rpc:ffff")
	p.expect("ERR RATE_LIMIT_EXCEEDED", "MAY no_pii=true")
	p.expect("ACK", "SHOULD region=us rpc:0000", "MUST region=eu rpc:0001") // takes no room
	// One that has begun makes room, and no other.
	p.want("rpc", "\x00\x05", "m", "MUST region=eu rpc:0005")
	p.expect("ACK", "MUST region=eu rpc:ffff")
	p.want("rpc", "\x00\x05", "m", "")
	for _, id := range []string{"\x00\x00", "\x00\x04", "\x00\x06", "\x01\xff", "\xff\xff"} {
		if p.of("rpc", id, "m") == "" {
			t.Errorf("the hint of %x is gone", id)
		}
	}

	p = newPeer(t, policyhint.Options{})
	long := strings.Repeat("v", policyhint.MaxValue)
	n := 0
	for ; p.set(fmt.Sprintf("MAY k%d=%s", n, long)) == "ACK"; n++ {
	}
	if kept := p.hints.Octets(); kept > 96<<10 || kept < 90<<10 || n < 70 {
		t.Errorf("%d long hints in %d octets", n, kept)
	}
}

// The hints of all connections have one bound. An identity fills many connections.
func TestRS32HintsOfOneIdentityLeaveRoomForAnother(t *testing.T) {
	var hints []profiles.Hint
	for n := range 70 {
		hints = append(hints, profiles.Hint{Key: fmt.Sprint("k", n), Value: strings.Repeat("v", policyhint.MaxValue), Mode: profiles.May})
	}
	fairtest.Places(t, "policyhint: octets of hints", "connections of 16", func(t *testing.T) (func(string) bool, func(string)) {
		h := policyhint.New(policyhint.Options{})
		there, err := profiles.NewRegistry(h.Profile())
		if err != nil {
			t.Fatal(err)
		}
		here, err := profiles.NewRegistry(fresh(t))
		if err != nil {
			t.Fatal(err)
		}
		open := map[string][]*profiletest.Session{}
		end := func(who string) {
			before, s := h.Octets(), open[who][0]
			open[who] = open[who][1:]
			s.Close()
			s.Wait()
			for h.Octets() == before {
				runtime.Gosched()
			}
		}
		take := func(who string) bool {
			s, _ := profiletest.Pair(who, here, "b", there, profiletest.SessionOptions{})
			if policyhint.Put(t.Context(), s, hints...) != nil {
				s.Close()
				s.Wait()
				return false
			}
			open[who] = append(open[who], s)
			return true
		}
		take("one")
		h.Bound(16 * int(h.Octets()))
		end("one")
		return take, end
	})
}

func TestSettingHintsNeedsARule(t *testing.T) {
	p := newPeer(t, policyhint.Options{Access: denies{}})
	p.expect("ERR SECURITY_POLICY", "MAY a=b")
	p.want("mcp", "", "x", "")
}

type denies struct{}

func (denies) Allowed(_, profile, operation, name string) bool {
	return profile != "policyhint" || operation != "set" || name != ""
}

func TestViolationsOfPeersAreTold(t *testing.T) {
	var told []string
	p := newPeer(t, policyhint.Options{Told: func(peer *profiles.Peer, v *policyhint.ViolationError) {
		told = append(told, peer.Identity+" "+v.Error())
	}})
	m := policyhint.Violation{Key: []byte("region"), Scope: []byte("rpc:01"), Reason: []byte("UNSATISFIED")}
	if err := p.Serve(policyhint.TypeViolation, m.Append(nil)).Err(); err != nil {
		t.Fatal(err)
	}
	if err := p.Serve(policyhint.TypeViolation, (&policyhint.Violation{Key: []byte("region")}).Append(nil)).Err(); err == nil {
		t.Error("one without scope and reason was accepted")
	}
	if want := []string{"spiffe://profiletest/peer policyhint: region for rpc:01: UNSATISFIED"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

func TestPuttingSaysWhyNot(t *testing.T) {
	theirs, err := profiles.NewRegistry(fresh(t))
	if err != nil {
		t.Fatal(err)
	}
	a, b := profiletest.Pair("a", theirs, "b", theirs, profiletest.SessionOptions{})
	defer b.Wait()
	defer a.Wait()
	defer a.Close()
	if err := policyhint.Put(t.Context(), a); err != nil {
		t.Errorf("nothing: %v", err)
	}
	err = policyhint.Put(t.Context(), a, profiles.Hint{Key: "colour", Value: "red", Mode: profiles.Must, Scope: "target:x"})
	if v := (*policyhint.ViolationError)(nil); !errors.As(err, &v) || *v != (policyhint.ViolationError{Key: "colour", Scope: "target:x", Reason: "UNKNOWN_KEY"}) {
		t.Errorf("unknown key: %v", err)
	}
	err = policyhint.Put(t.Context(), a, profiles.Hint{Key: "region", Value: "eu", Scope: "world"})
	if e := (*profiles.PeerError)(nil); !errors.As(err, &e) || e.Code != policyhint.CodeInvalidScope || e.Message == "" {
		t.Errorf("bad scope: %v", err)
	}
}

// policyhint_0001: what holds here is told to the next hop, for the lifecycle
// that it has there.
func TestHintsGoOnWithWhatTheyAreFor(t *testing.T) {
	next := policyhint.New(policyhint.Options{})
	there, err := profiles.NewRegistry(next.Profile())
	if err != nil {
		t.Fatal(err)
	}
	here, err := profiles.NewRegistry(fresh(t))
	if err != nil {
		t.Fatal(err)
	}
	a, b := profiletest.Pair("a", here, "b", there, profiletest.SessionOptions{})
	defer b.Wait()
	defer a.Wait()
	defer a.Close()
	lane, err := a.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	see := func(profile, id, name string) string {
		req := &profiles.Request{Session: b, Envelope: e1.Envelope{Payload: []byte(id)}}
		return text(profiles.HintsOf(next.Attach(t.Context(), keyed(profile), req), name))
	}
	hint := func(mode profiles.Mode, key, value, scope string) profiles.Hint {
		return profiles.Hint{Key: key, Value: value, Mode: mode, Scope: scope}
	}
	ctx := profiles.WithHints(t.Context(), []profiles.Hint{
		hint(profiles.Should, "cost_limit", "1", "rpc:01"), hint(profiles.Should, "cost_limit", "9", "connection"),
		hint(profiles.Must, "region", "eu", "connection"), hint(profiles.Must, "region", "eu", "rpc:01"),
		hint(profiles.May, "colour", "red", "target:m"), hint(profiles.May, "colour", "blue", "target:other"),
	})
	if err := forward(ctx, lane, profiles.ScopeRPC, "m", []byte{0x77}); err != nil {
		t.Fatal(err)
	}
	if got, want := see("rpc", "\x77", "m"), "MAY colour=red target:m, MUST region=eu rpc:77, SHOULD cost_limit=1 rpc:77"; got != want {
		t.Errorf("the call has %q there, want %q", got, want)
	}
	if got := see("rpc", "\x01", "other"); got != "" {
		t.Errorf("others have %q there", got)
	}
	// A task, where nothing is a MUST and nobody waits.
	ctx = profiles.WithHints(t.Context(), []profiles.Hint{hint(profiles.Should, "no_pii", "true", "task:02")})
	if err := forward(ctx, lane, profiles.ScopeTask, "k", []byte{0x78}); err != nil {
		t.Fatal(err)
	}
	if err := policyhint.Put(t.Context(), lane); err != nil { // behind it
		t.Fatal(err)
	}
	if got, want := see("a2a", "\x78", "k"), "SHOULD no_pii=true task:78"; got != want {
		t.Errorf("the task has %q there, want %q", got, want)
	}
	// What cannot be told is not left out.
	ctx = profiles.WithHints(t.Context(), []profiles.Hint{hint(profiles.Must, "region", "eu", "connection"), hint(profiles.Must, "region", "eu-west", "rpc:01")})
	if err := forward(ctx, lane, profiles.ScopeRPC, "m", []byte{0x79}); err == nil {
		t.Error("two values of a MUST were told as one")
	}
	if err := forward(t.Context(), lane, profiles.ScopeRPC, "m", []byte{0x80}); err != nil {
		t.Errorf("no hints: %v", err)
	}
	var many []profiles.Hint
	for i := range 300 {
		many = append(many, hint(profiles.Should, fmt.Sprint("k", i), "v", "connection"))
	}
	if err := forward(profiles.WithHints(t.Context(), many), lane, profiles.ScopeRPC, "m", []byte{0x81}); err != nil {
		t.Fatal(err)
	}
	if err := policyhint.Put(t.Context(), lane); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(see("rpc", "\x81", "none"), "SHOULD"); got != 300 {
		t.Errorf("%d of 300 hints arrived", got)
	}
}
