package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/profiles/relay"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/profiles/tooldisc"
)

// everywhere dials an organisation over TLS and QUIC, which has a partner b.
func everywhere(t *testing.T, yamlB string, f func(t *testing.T, a, b *organisation, s *session)) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, b := pair(t, transport, yamlB)
		f(t, a, b, a.mustDial(a.addrs[transport]))
	})
}

// opened opens a lane.
func opened(t *testing.T, s profiles.Session) profiles.Lane {
	t.Helper()
	lane, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lane
}

// refusedBy wants a refusal of a profile with a code, by an organisation.
func refusedBy(t *testing.T, what string, err error, code string, o *organisation) {
	t.Helper()
	refused, ok := errors.AsType[*profiles.PeerError](err)
	if !ok || refused.Code != code || o != nil && refused.Endpoint != o.identity {
		t.Errorf("%s: %v (%+v), want %s by %v", what, err, refused, code, o)
	}
}

func TestStatesAreKeptAtAPartner(t *testing.T) {
	t.Parallel()
	everywhere(t, "", func(t *testing.T, a, b *organisation, s *session) {
		far := profiles.Toward(s.Session, "b")
		first := state.State{Blob: []byte("one")}
		first.ID = state.IDOf(first.Blob)
		second := state.State{Blob: []byte("two"), Parents: []state.ID{first.ID}, Metadata: []byte("meta")}
		second.ID = state.IDOf(second.Blob)
		if n, err := state.PutAll(t.Context(), opened(t, far), rpc.Sync, first, second); n != 2 || err != nil {
			t.Fatalf("%d states were put: %v", n, err)
		}
		got, err := state.Fetch(t.Context(), far, second.ID)
		if err != nil || !bytes.Equal(got.Blob, second.Blob) || !slices.Equal(got.Parents, second.Parents) || string(got.Metadata) != "meta" {
			t.Errorf("%+v, %v", got, err)
		}
		_, err = state.Fetch(t.Context(), s.Session, second.ID)
		refusedBy(t, "the same state here", err, state.CodeNotFound, a)
		if err := state.AddDelta(t.Context(), opened(t, far), rpc.Sync, first.ID, []byte("delta")); err != nil {
			t.Error(err)
		}
		orphan := state.State{Blob: []byte("three"), Parents: []state.ID{state.IDOf([]byte("nobody"))}}
		_, err = state.PutAll(t.Context(), opened(t, far), rpc.Sync, orphan)
		refusedBy(t, "a state without its parent", err, state.CodeParentMissing, b)
		deltas := 0
		stream, err := rpc.Open(t.Context(), far, state.MethodDeltas, first.ID[:])
		for err == nil {
			if _, err = stream.Recv(t.Context()); err == nil {
				deltas++
			}
		}
		if deltas != 1 {
			t.Errorf("%d deltas: %v", deltas, err)
		}
	})
}

// octetsOf are random octets with their digest.
func octetsOf(n int) ([]byte, [32]byte) {
	octets := make([]byte, n)
	for i := range octets {
		octets[i] = byte(rand.Uint32()) //nolint:gosec // test data
	}
	return octets, sha256.Sum256(octets)
}

// uploads uploads an artifact again and again until it is there.
func uploads(t *testing.T, s profiles.Session, u artifact.Upload) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := u.Send(t.Context(), s)
		if err == nil {
			return
		}
		if time.Now().After(deadline) || s.Context().Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func got(t *testing.T, s profiles.Session, d artifact.Download) ([]byte, error) {
	t.Helper()
	var octets []byte
	d.Sink = func(c *artifact.Chunk) error {
		if string(c.ArtifactID) != d.ArtifactID {
			t.Errorf("a chunk of %q, want %q", c.ArtifactID, d.ArtifactID)
		}
		octets = append(octets, c.Data...)
		return nil
	}
	_, err := d.Receive(t.Context(), s)
	return octets, err
}

func TestArtifactsCrossByNameAndByTarget(t *testing.T) {
	t.Parallel()
	everywhere(t, "", func(t *testing.T, a, b *organisation, s *session) {
		far := profiles.Toward(s.Session, "b")
		octets, sum := octetsOf(3<<20 + 7)
		u := artifact.Upload{ArtifactID: "b/one", Size: uint64(len(octets)), Hash: sum, Octets: bytes.NewReader(octets), Sync: rpc.Sync}
		if err := u.Send(t.Context(), s.Session); err != nil {
			t.Fatal(err)
		}
		var told []uint64
		u.Progress = func(durable uint64) { told = append(told, durable) }
		if err := u.Send(t.Context(), s.Session); err != nil || len(told) != 1 || told[0] != u.Size {
			t.Errorf("what is there is sent again: %v, %v", told, err)
		}
		for name, from := range map[string]profiles.Session{"b/one": s.Session, "one": far} {
			if back, err := got(t, from, artifact.Download{ArtifactID: name}); err != nil || !bytes.Equal(back, octets) {
				t.Errorf("%s: %d octets, %v", name, len(back), err)
			}
			part, err := got(t, from, artifact.Download{ArtifactID: name, Start: 1 << 20, End: 1<<20 + 5})
			if err != nil || !bytes.Equal(part, octets[1<<20:1<<20+5]) {
				t.Errorf("a range of %s: %d octets, %v", name, len(part), err)
			}
		}
		_, err := got(t, s.Session, artifact.Download{ArtifactID: "b/none"})
		refusedBy(t, "an artifact that is not there", err, artifact.CodeNotFound, b)
		_, err = got(t, s.Session, artifact.Download{ArtifactID: "one"})
		refusedBy(t, "the same here", err, artifact.CodeNotFound, a)
		u.ArtifactID, u.Hash = "b/wrong", sha256.Sum256(nil)
		refusedBy(t, "a wrong digest", u.Send(t.Context(), s.Session), artifact.CodeIntegrity, b)
	})
}

func TestAnArtifactGoesOnWhenTheLinkIsCut(t *testing.T) {
	t.Parallel()
	b := open(t, "b", "")
	a := open(t, "a", "")
	link, address := newTunnel(t, b.addrs[0])
	b.trusting("a", a)
	a.trusting("b", b, address)
	a.connected("b")
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		s := a.mustDial(a.addrs[transport])
		octets, sum := octetsOf(8 << 20)
		cut := 0
		u := artifact.Upload{
			ArtifactID: fmt.Sprint("b/", transport), Size: uint64(len(octets)), Hash: sum, Octets: bytes.NewReader(octets), Sync: rpc.Sync,
			Progress: func(durable uint64) {
				if durable > uint64(cut)<<20 && cut < 3 {
					cut++
					link.cut()
				}
			},
		}
		uploads(t, s.Session, u)
		if cut != 3 {
			t.Errorf("cut %d times", cut)
		}
		at, n := uint64(0), 0
		var back []byte
		d := artifact.Download{ArtifactID: u.ArtifactID, Sink: func(c *artifact.Chunk) error {
			back, at = append(back, c.Data...), at+uint64(len(c.Data))
			if at > uint64(n+1)<<21 && n < 2 {
				n++
				link.cut()
			}
			return nil
		}}
		_, err := d.Receive(t.Context(), s.Session)
		for end := time.Now().Add(patience); err != nil && strings.Contains(err.Error(), "partner b cannot be reached now") && time.Now().Before(end); {
			a.connected("b") // which took longer than a question waits for it
			d.Start = at
			_, err = d.Receive(t.Context(), s.Session)
		}
		if err != nil || !bytes.Equal(back, octets) || n != 2 {
			t.Errorf("%d octets after %d cuts, %v", len(back), n, err)
		}
	})
}

// To a partner all peers here are one, so it cannot tell their uploads of one id apart.
func TestALinkCarriesOneUploadOfAnID(t *testing.T) {
	a, _ := pair(t, 0, "")
	s, other := a.mustDial(a.addrs[0]), a.mustDial(a.addrs[1])
	octets, sum := octetsOf(1 << 20)
	u := artifact.Upload{ArtifactID: "b/x", Size: uint64(len(octets)), Hash: sum, Octets: bytes.NewReader(octets), Sync: rpc.Sync}
	stolen := artifact.Chunk{ArtifactID: []byte("b/x"), Data: []byte("x")}
	call, err := other.Call(t.Context(), e1.Envelope{ProfileID: artifact.ProfileID, MsgType: artifact.TypeChunk, Payload: stolen.Append(nil)})
	if err != nil {
		t.Fatal(err)
	}
	env, err := call.Recv(t.Context())
	if err != nil || env.MsgType != artifact.TypeErr || !bytes.Contains(env.Payload, []byte("begin it again")) {
		t.Errorf("a chunk of no upload: %v, %v", env, err)
	}
	call.Close()
	if err := u.Send(t.Context(), s.Session); err != nil {
		t.Error(err)
	}
}

func record(id, kind, body string) *events.Record {
	return &events.Record{
		EventID: []byte(id), EventType: []byte(kind), Severity: []byte("info"), Timestamp: 1790000000000, MsgID: []byte("m"), Body: []byte(body),
	}
}

// publishes publishes events, and confirms them.
func publishes(t *testing.T, s profiles.Session, records ...*events.Record) error {
	t.Helper()
	p := events.NewPublisher(opened(t, s), rpc.Sync)
	defer p.Close()
	for _, r := range records {
		if err := p.Publish(t.Context(), r); err != nil {
			return err
		}
	}
	return p.Sync(t.Context())
}

// subscribed subscribes.
func subscribed(t *testing.T, s profiles.Session, o events.SubscribeOptions) *events.Subscription {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sub, err := events.Open(ctx, s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sub.Close)
	return sub
}

// bodies receives as many events.
func bodies(t *testing.T, sub *events.Subscription, n int) (list []string, cursor uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(list) < n {
		d, err := sub.Recv(ctx)
		if err != nil {
			t.Fatalf("after %q: %v", list, err)
		}
		for _, r := range d.Events {
			list = append(list, string(r.EventType)+"="+string(r.Body))
		}
		cursor = d.Cursor
	}
	return list, cursor
}

func TestEventsOfAPartner(t *testing.T) {
	t.Parallel()
	everywhere(t, "", func(t *testing.T, a, b *organisation, s *session) {
		far := profiles.Toward(s.Session, "b")
		byName := subscribed(t, s.Session, events.SubscribeOptions{Filter: "type:b/k,severity:info"})
		byTarget := subscribed(t, far, events.SubscribeOptions{Filter: "type:k", Name: "mine"})
		if err := publishes(t, s.Session, record("1", "b/k", "one"), record("2", "b/other", "two")); err != nil {
			t.Fatal(err)
		}
		if err := publishes(t, far, record("3", "k", "three")); err != nil {
			t.Fatal(err)
		}
		if err := publishes(t, b.mustDial(b.addrs[0]).Session, record("4", "k", "four")); err != nil {
			t.Fatal(err)
		}
		if err := publishes(t, s.Session, record("5", "k", "here"), record("6", "c/k", "here")); err != nil {
			t.Fatal(err)
		}
		want := []string{"k=one", "k=three", "k=four"}
		for name, sub := range map[string]*events.Subscription{"by name": byName, "by target": byTarget} {
			if list, _ := bodies(t, sub, 3); !slices.Equal(list, want) {
				t.Errorf("%s: %q, want %q", name, list, want)
			}
		}
		_, err := events.Open(t.Context(), s.Session, events.SubscribeOptions{Filter: "type:b/k,type:k"})
		refusedBy(t, "types here and there", err, "INVALID_PROFILE_PAYLOAD", a)
		_, err = events.Open(t.Context(), far, events.SubscribeOptions{Filter: "colour:red"})
		refusedBy(t, "a filter that is none", err, events.CodeInvalidFilter, a)
		// An event is published once, however often it is sent, and another under its id is not.
		if err := publishes(t, far, record("3", "k", "three")); err != nil {
			t.Error(err)
		}
		if err := publishes(t, far, record("3", "k", "another")); err == nil {
			t.Error("another event under a used event_id was accepted")
		}
		if err := byTarget.ForgetAnd(rpc.Sync); err != nil {
			t.Error(err)
		}
		again := subscribed(t, far, events.SubscribeOptions{Filter: "type:k", Name: "mine"})
		if err := publishes(t, far, record("7", "k", "seven")); err != nil {
			t.Error(err)
		}
		if list, _ := bodies(t, again, 1); list[0] != "k=seven" {
			t.Errorf("under a name that was forgotten: %q", list)
		}
	})
}

// A partner is subscribed to once, however many subscribe here to the same.
func TestManySubscriptionsShareOneAtThePartner(t *testing.T) {
	t.Parallel()
	everywhere(t, "", func(t *testing.T, a, b *organisation, s *session) {
		const many = 600 // more than a connection may have
		subs := make([]*events.Subscription, many)
		for i := range subs {
			if i%100 == 0 && i > 0 { // QUIC has 128 streams at once
				s = a.mustDial(a.addrs[0])
			}
			subs[i] = subscribed(t, s.Session, events.SubscribeOptions{Filter: "type:b/k"})
		}
		there := b.mustDial(b.addrs[0])
		for i := range 3 {
			if err := publishes(t, there.Session, record(fmt.Sprint(i), "k", fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"k=0", "k=1", "k=2"}
		for i, sub := range subs {
			if list, _ := bodies(t, sub, 3); !slices.Equal(list, want) {
				t.Fatalf("subscription %d: %q", i, list)
			}
		}
		late := subscribed(t, s.Session, events.SubscribeOptions{Filter: "type:b/k"})
		for _, sub := range subs[:many-1] {
			sub.Close()
		}
		if err := publishes(t, there.Session, record("9", "k", "9")); err != nil {
			t.Fatal(err)
		}
		for name, sub := range map[string]*events.Subscription{"one that is left": subs[many-1], "one that came later": late} {
			if list, _ := bodies(t, sub, 1); list[0] != "k=9" {
				t.Errorf("%s: %q", name, list)
			}
		}
	})
}

func TestADurableSubscriptionAtAPartnerMissesNothingWhenTheLinkIsCut(t *testing.T) {
	t.Parallel()
	b := open(t, "b", "")
	a := open(t, "a", "")
	link, address := newTunnel(t, b.addrs[0])
	b.trusting("a", a)
	a.trusting("b", b, address)
	a.connected("b")
	there := b.mustDial(b.addrs[0])
	s := a.mustDial(a.addrs[0])
	sub := subscribed(t, s.Session, events.SubscribeOptions{Filter: "type:b/k", Name: "mine"})
	live := subscribed(t, s.Session, events.SubscribeOptions{Filter: "type:b/k"})
	var want []string
	for i := range 12 {
		if err := publishes(t, there.Session, record(fmt.Sprint(i), "k", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprint("k=", i))
		if i%4 == 1 {
			link.cut()
		}
	}
	list, cursor := bodies(t, sub, len(want))
	if !slices.Equal(list, want) {
		t.Errorf("delivered %q, want %q", list, want)
	}
	if list, _ := bodies(t, live, len(want)); !slices.Equal(list, want) {
		t.Errorf("delivered without a name %q, want %q", list, want)
	}
	// The cursor is the partner's.
	sub.Close()
	again := subscribed(t, a.mustDial(a.addrs[1]).Session, events.SubscribeOptions{Filter: "type:b/k", After: new(cursor - 2)})
	if list, _ := bodies(t, again, 2); !slices.Equal(list, want[10:]) {
		t.Errorf("after the cursor %q, want %q", list, want[10:])
	}
	// A stop of the partner is no end of a subscription either.
	if err := b.end(); err != nil {
		t.Fatal(err)
	}
	a.until("the loss of b", func() bool { return !a.up("b") })
	_, err := events.Open(t.Context(), s.Session, events.SubscribeOptions{Filter: "type:b/another"})
	refusedBy(t, "a partner that is away", err, "RATE_LIMIT_EXCEEDED", a)
}

func TestCardsAndToolsOfAPartner(t *testing.T) {
	t.Parallel()
	const yaml = "tooldisc:\n  tools:\n    - {tool_id: adder, name: Adder, version: '1', schema_ref: 'sha256:" +
		"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae'}\n"
	everywhere(t, yaml, func(t *testing.T, a, b *organisation, s *session) {
		far := profiles.Toward(s.Session, "b")
		_, err := agdisc.Ask(t.Context(), s.Session, "b/nobody", "")
		refusedBy(t, "a card that is not there", err, agdisc.CodeNotFound, b)
		for name, on := range map[string]profiles.Session{"b/adder": s.Session, "adder": far} {
			tool, err := tooldisc.Find(t.Context(), on, name, "")
			if err != nil || tool.Name != "Adder" || tool.ID != name {
				t.Errorf("%s: %+v, %v", name, tool, err)
			}
		}
		tools, _, err := tooldisc.Page(t.Context(), far, tooldisc.Query{})
		if err != nil || len(tools) != 1 || tools[0].ID != "adder" {
			t.Errorf("tools of b: %+v, %v", tools, err)
		}
	})
}

func TestMethodsOfAnEndpointAreCalledByTarget(t *testing.T) {
	t.Parallel()
	everywhere(t, "", func(t *testing.T, a, b *organisation, s *session) {
		far := profiles.Toward(s.Session, "b")
		for _, method := range []string{"b/swp.ping", "b/swp.info"} {
			if _, err := rpc.Call(t.Context(), s.Session, method, nil); err != nil {
				t.Errorf("%s: %v", method, err)
			}
		}
		for _, method := range []string{rpc.MethodEcho, artifact.MethodList, agdisc.MethodList} {
			if _, err := rpc.Call(t.Context(), far, method, nil); err != nil {
				t.Errorf("%s at b: %v", method, err)
			}
		}
		for on, method := range map[profiles.Session]string{s.Session: "b/swp.artifacts.list", far: rpc.MethodSync} {
			_, err := rpc.Call(t.Context(), on, method, nil)
			if fault, ok := errors.AsType[*rpc.Error](err); !ok || fault.Code != rpc.CodeInvalidRequest || !strings.Contains(fault.Message, "about one connection") {
				t.Errorf("%s: %v", method, err)
			}
		}
		_, err := rpc.Call(t.Context(), profiles.Toward(s.Session, "c"), rpc.MethodPing, nil)
		if err == nil || !strings.Contains(err.Error(), `no partner "c"`) {
			t.Errorf("an unknown partner: %v", err)
		}
	})
}

func TestAnIdentityIsToldOfPartnersThatItsRulesReach(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string][]string{
		"{identity: '**'}": {"b"},
		"{identity: '**', profile: [rpc, events], name: ['swp.*', 'b/orders']}":            {"b"},
		"{identity: '**', profile: [rpc, events], name: ['swp.*', 'bb/orders', b-orders]}": nil,
	} {
		a, _ := pairOf(t, 0, "access: {rules: ["+rule+"]}\n", "")
		var info rpc.Info
		if err := rpc.CallJSON(t.Context(), a.mustDial(a.addrs[0]).Session, rpc.MethodInfo, nil, &info); err != nil || !slices.Equal(info.Partners, want) {
			t.Errorf("%s: %q, %v, want %q", rule, info.Partners, err, want)
		}
	}
}

func TestWhatCannotGoToAPartnerIsRefused(t *testing.T) {
	t.Parallel()
	everywhere(t, "", func(t *testing.T, a, b *organisation, s *session) {
		blob := state.State{Blob: []byte("kept nowhere")}
		for target, want := range map[string]string{
			"c": `no partner "c"`, "b/c": `no partner "c"`, "b//c": "empty name", "/b": "empty name",
			strings.Repeat("b", 257):        "257 octets",
			strings.Repeat("b/a/", 4) + "b": "passed on 8 times already",
		} {
			_, err := state.PutAll(t.Context(), opened(t, profiles.Toward(s.Session, target)), rpc.Sync, blob)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("target %.20s: %v, want %q", target, err, want)
			}
		}
		for name, end := range map[string]*organisation{"a": a, "b": b} {
			_, err := state.Fetch(t.Context(), end.mustDial(end.addrs[0]).Session, state.IDOf(blob.Blob))
			refusedBy(t, "what was refused, at "+name, err, state.CodeNotFound, end)
		}
		far := profiles.Toward(s.Session, "b")
		if _, _, err := obs.Last(t.Context(), far); err == nil || !strings.Contains(err.Error(), "about one connection") {
			t.Errorf("a trace context of b: %v", err)
		}
	})
}

func TestARefusalSaysAtWhichEndItIs(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		b := open(t, "b", "access: {rules: [{identity: '**', profile: rpc}, {identity: '**', profile: state, operation: get}]}\n")
		a := open(t, "a", "access: {rules: [{identity: '**', profile: rpc}, {identity: '**', profile: state, operation: put, name: 'b/*'}, {identity: '**', profile: events, operation: publish, name: here}]}\n")
		b.trusting("a", a)
		a.trusting("b", b, b.addrs[transport])
		a.connected("b")
		s := a.mustDial(a.addrs[transport])
		far := profiles.Toward(s.Session, "b")
		_, err := state.PutAll(t.Context(), opened(t, far), rpc.Sync, state.State{Blob: []byte("x")})
		refusedBy(t, "denied there", err, "SECURITY_POLICY", b)
		a.await("refused by partner")
		_, err = state.Fetch(t.Context(), far, state.IDOf(nil))
		refusedBy(t, "denied here", err, "SECURITY_POLICY", a)
		refusedBy(t, "an event denied here", publishes(t, s.Session, record("1", "b/here", "x")), "SECURITY_POLICY", a)
	})
}

func TestAThirdHop(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		row := inARow(t, transport, "", "", "")
		a, c := row[0], row[2]
		s := a.mustDial(a.addrs[transport])
		far := profiles.Toward(s.Session, "b/c")
		blob := state.State{Blob: []byte("at c")}
		if _, err := state.PutAll(t.Context(), opened(t, far), rpc.Sync, blob); err != nil {
			t.Fatal(err)
		}
		sub := subscribed(t, s.Session, events.SubscribeOptions{Filter: "type:b/c/k"})
		if err := publishes(t, s.Session, record("1", "b/c/k", "one")); err != nil {
			t.Fatal(err)
		}
		if list, _ := bodies(t, sub, 1); list[0] != "k=one" {
			t.Errorf("events of c: %q", list)
		}
		octets, sum := octetsOf(1 << 20)
		u := artifact.Upload{ArtifactID: "b/c/one", Size: uint64(len(octets)), Hash: sum, Octets: bytes.NewReader(octets), Sync: rpc.Sync}
		if err := u.Send(t.Context(), s.Session); err != nil {
			t.Fatal(err)
		}
		if back, err := got(t, far, artifact.Download{ArtifactID: "one"}); err != nil || !bytes.Equal(back, octets) {
			t.Errorf("%d octets, %v", len(back), err)
		}
		if _, err := rpc.Call(t.Context(), far, artifact.MethodList, nil); err != nil {
			t.Error(err)
		}
		there := c.mustDial(c.addrs[0])
		id := state.IDOf(blob.Blob)
		if got, err := state.Fetch(t.Context(), there.Session, id); err != nil || string(got.Blob) != "at c" {
			t.Errorf("state %s at c: %v, %v", hex.EncodeToString(id[:4]), got, err)
		}
	})
}

// delivered receives deliveries and acknowledges them.
func delivered(t *testing.T, c *relay.Consumer, n int) (payloads []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range n {
		d, err := c.Recv(ctx)
		if err != nil {
			t.Fatalf("after %q: %v", payloads, err)
		}
		payloads = append(payloads, string(d.Payload))
		if err := d.Ack(); err != nil {
			t.Error(err)
		}
	}
	return payloads
}

// becomes waits until a delivery of this side is in a state.
func becomes(t *testing.T, s profiles.Session, id string, want relay.State) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		state, _, err := relay.Ask(t.Context(), s, []byte(id))
		if state == want && err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("delivery %s is %q, %v; want %q", id, state, err, want)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestDeliveriesArePassedOnToAPartner(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, b := pair(t, transport, "")
		_, s := relayPeer(t, a.running, a.addrs[transport])
		there, sb := relayPeer(t, b.running, b.addrs[0])
		c, err := there.Consume(t.Context(), sb, "t", 8)
		if err != nil {
			t.Fatal(err)
		}
		far := profiles.Toward(s, "b")
		for i, on := range []profiles.Session{s, far} {
			p := relay.Publication{ID: []byte{'0' + byte(i)}, Topic: []string{"b/t", "t"}[i], Payload: []byte(fmt.Sprint("payload ", i)), TTL: time.Hour}
			for _, known := range []bool{false, true} {
				if r, err := relay.Send(t.Context(), on, &p); err != nil || r.Duplicate != known {
					t.Fatalf("%+v, %v", r, err)
				}
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		left := []string{"0", "1"}
		for len(left) > 0 { // in any order: one is passed on, the other was published there
			d, err := c.Recv(ctx)
			if err != nil {
				t.Fatal(err)
			}
			id := strings.TrimPrefix(string(d.Payload), "payload ")
			i := slices.Index(left, id)
			if i < 0 {
				t.Fatalf("delivery %+v", d)
			}
			left = slices.Delete(left, i, i+1)
			if profiles.Link(d.Publisher) != a.identity || d.Hops != 2 || d.TTL <= 0 || d.TTL > time.Hour || d.Topic != "t" {
				t.Errorf("delivery %+v", d)
			}
			becomes(t, s, id, relay.Queued) // at the partner
			if err := d.Ack(); err != nil {
				t.Error(err)
			}
			becomes(t, s, id, relay.Acked)
		}
		_, err = relay.Send(t.Context(), profiles.Toward(s, "c"), &relay.Publication{ID: []byte("9"), Topic: "t"})
		refusedBy(t, "an unknown partner", err, relay.CodeNotFound, a)
	})
}

func TestDeliveriesWaitForAPartnerThatIsAway(t *testing.T) {
	t.Parallel()
	yaml := "relay: {max_attempts: 1}\n"
	b := open(t, "b", yaml)
	a := open(t, "a", yaml)
	b.trusting("a", a)
	link, address := newTunnel(t, b.addrs[0])
	a.trusting("b", b, address)
	a.connected("b")
	_, s := relayPeer(t, a.running, a.addrs[0])
	var want []string
	publish := func(n int) {
		t.Helper()
		for range n {
			id := fmt.Sprintf("%03d", len(want))
			if _, err := relay.Send(t.Context(), s, &relay.Publication{ID: []byte(id), Topic: "b/t", Payload: []byte(id)}); err != nil {
				t.Fatal(err)
			}
			want = append(want, id)
		}
	}
	for range 5 {
		publish(20)
		link.cut()
	}
	a.connected("b")
	if err := b.end(); err != nil {
		t.Fatal(err)
	}
	a.until("the loss of b", func() bool { return !a.up("b") })
	publish(20)
	if state, _, err := relay.Ask(t.Context(), s, []byte("119")); err != nil || state != relay.Queued {
		t.Errorf("for a partner that is away: %q, %v", state, err)
	}
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	a.again()
	_, s = relayPeer(t, a.running, a.addrs[0])
	publish(1)
	b.again()
	a.rewrite(address, b.addrs[0])
	a.reloaded()
	a.connected("b")
	there, sb := relayPeer(t, b.running, b.addrs[0])
	c, err := there.Consume(t.Context(), sb, "t", 8)
	if err != nil {
		t.Fatal(err)
	}
	got := delivered(t, c, len(want))
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("delivered %q, want each once of %d", got, len(want))
	}
	becomes(t, s, want[len(want)-1], relay.Acked)
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if d, err := c.Recv(short); err == nil {
		t.Errorf("delivered twice: %s", d.Payload)
	}
}

func TestADeliveryThatAPartnerRefusesIsDead(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		b := open(t, "b", "access: {rules: [{identity: '**', profile: rpc}, {identity: '**', profile: relay, name: open}]}\n")
		a := open(t, "a", "access: {rules: [{identity: '**', profile: rpc}, {identity: '**', profile: relay, operation: publish, name: 'b/*'}]}\n")
		b.trusting("a", a)
		a.trusting("b", b, b.addrs[transport])
		a.connected("b")
		_, s := relayPeer(t, a.running, a.addrs[transport])
		if _, err := relay.Send(t.Context(), s, &relay.Publication{ID: []byte("1"), Topic: "b/closed"}); err != nil {
			t.Fatal(err)
		}
		becomes(t, s, "1", relay.DeadState)
		result, err := rpc.Call(t.Context(), s, relay.MethodDead, nil)
		if err != nil || !strings.Contains(string(result), `"topic":"b/closed","reason_code":"rejected"`) {
			t.Errorf("dead: %s, %v", result, err)
		}
		refusedThere(t, s, "1", relay.Refusal{Code: "SECURITY_POLICY", Message: "not allowed on this topic", Endpoint: "spiffe://b.example/swpd"})
		a.await(`"msg":"refused by partner","err_code":"ERR_SECURITY_POLICY","partner":"b","endpoint":"spiffe://b.example/swpd","peer":"spiffe://a.example/swp-client","profile":"relay","operation":"publish","name":"b/closed"`)
		_, err = relay.Send(t.Context(), s, &relay.Publication{ID: []byte("2"), Topic: "here"})
		refusedBy(t, "denied here", err, "SECURITY_POLICY", a)
		_, err = relay.Send(t.Context(), s, &relay.Publication{ID: []byte("3"), Topic: "b/open", Hops: profiles.MaxHops})
		refusedBy(t, "passed on too often", err, "INVALID_PROFILE_PAYLOAD", a)
	})
}

// A worker in the configuration of a partner has no name: its kind does.
func TestWorkersOfAPartnerAreFoundByTheirKind(t *testing.T) {
	t.Parallel()
	const workers = "a2a: {workers: {one: {kinds: [report], command: cat}}}\n"
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a := inARow(t, transport,
			"access: {rules: [{identity: '**', profile: rpc}, {identity: '**', profile: a2a, operation: task, name: ['b/*', 'b/c/report']}]}\n",
			workers+"access: {rules: [{identity: '**', profile: rpc}, {identity: '**', profile: a2a, operation: task, name: [report, 'c/report']}]}\n",
			workers)[0]
		s := a.mustDial(a.addrs[transport])
		for name, test := range map[string]struct{ kind, agent, reason string }{
			"a kind of b":                 {kind: "b/report"},
			"at b":                        {kind: "report", agent: "b"},
			"a kind of c behind b":        {kind: "b/c/report"},
			"at c behind b":               {kind: "report", agent: "b/c"},
			"denied here":                 {kind: "b/c/other", reason: "denied"},
			"denied there":                {kind: "b/other", reason: "denied"},
			"a partner that is not there": {kind: "d/report", reason: "denied"},
		} {
			task := &a2a.Task{Kind: test.kind, Input: []byte(name)}
			d, err := s.tasks.Send(t.Context(), s.Session, task, a2a.SendOptions{Agent: test.agent})
			if err != nil {
				t.Fatal(err)
			}
			events, result := follow(t, d, "")
			d.Close()
			if result == nil || result.OK != (test.reason == "") || result.OK && !strings.Contains(strings.Join(events, ""), name) || !strings.Contains(result.Reason, test.reason) {
				t.Errorf("%s: %q, %+v", name, events, result)
			}
		}
	})
}

// agentsOf lists agents as a peer may see them.
func agentsOf(t *testing.T, s profiles.Session) (list []agdisc.Entry) {
	t.Helper()
	octets, err := rpc.Call(t.Context(), s, agdisc.MethodList, nil)
	if err != nil {
		t.Fatal(err)
	}
	var page agdisc.ListResult
	if err := json.Unmarshal(octets, &page); err != nil {
		t.Fatal(err)
	}
	return page.Agents
}

func TestAgentsAndToolsOfPartnersAreListed(t *testing.T) {
	const yaml = "tooldisc:\n  tools:\n    - {tool_id: adder, name: Adder, version: '1', schema_ref: 'sha256:" +
		"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae'}\n    - {tool_id: hidden, name: Hidden, version: '1', schema_ref: 'sha256:" +
		"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae'}\n"
	b := open(t, "b", yaml)
	b.agent("far", func(context.Context, *a2a.Task, func(string, []byte) error) ([]byte, error) { return nil, nil })
	a := open(t, "a", "access: {rules: [{identity: '**', profile: rpc}, {identity: '**', profile: agdisc, name: 'b/*'}, {identity: '**', profile: tooldisc, name: b/adder}]}\n")
	b.trusting("a", a)
	a.trusting("b", b, b.addrs[0])
	a.connected("b")
	s := a.mustDial(a.addrs[0])
	a.until("agents and tools of b", func() bool {
		tools, _, err := tooldisc.Page(t.Context(), s.Session, tooldisc.Query{})
		return err == nil && len(tools) == 1 && tools[0].ID == "b/adder" && len(agentsOf(t, s.Session)) == 1
	})
	if list := agentsOf(t, s.Session); list[0].AgentID != "b/far" || list[0].StaleMillis != 0 {
		t.Errorf("agents %+v", list)
	}
	there := b.mustDial(b.addrs[0])
	for _, list := range [][]agdisc.Entry{agentsOf(t, there.Session), agentsOf(t, profiles.Toward(s.Session, "b"))} {
		if len(list) != 1 || list[0].AgentID != "far" {
			t.Errorf("agents of b as b has them: %+v", list)
		}
	}
	if err := b.end(); err != nil {
		t.Fatal(err)
	}
	a.until("that they may be out of date", func() bool {
		list := agentsOf(t, s.Session)
		return len(list) == 1 && list[0].StaleMillis > 0
	})
	if tools, _, err := tooldisc.Page(t.Context(), s.Session, tooldisc.Query{}); err != nil || len(tools) != 1 {
		t.Errorf("tools of a partner that is away: %v, %v", tools, err)
	}
}

func TestAServerOfAPartnerThatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, _ := pairOf(t, transport, "access: {rules: [{identity: '**', profile: mcp, name: 'b/broken/**'}]}\n",
			"mcp: {servers: {broken: {command: 'false'}, hidden: {command: 'false'}}}\n")
		s := a.mustDial(a.addrs[transport])
		for on, want := range map[profiles.Session]string{s.Session: "b/broken", profiles.Toward(s.Session, "b"): "broken"} {
			var unread []tooldisc.Unread
			_, _, err := tooldisc.Page(t.Context(), on, tooldisc.Query{Unread: func(u tooldisc.Unread) { unread = append(unread, u) }})
			if err != nil || len(unread) != 1 || unread[0].Name != want || !strings.Contains(unread[0].Reason, `server "broken"`) {
				t.Errorf("%s: %q, %v", want, unread, err)
			}
		}
	})
}

// An event keeps its type on the way; the rules are asked about it as it was asked for.
func TestRulesNameAnEventOfAPartnersPartnerAsItsFilterDoes(t *testing.T) {
	row := inARow(t, 0, "access: {rules: [{identity: '**', profile: rpc}, {identity: '**', profile: events, name: [b/c/k]}]}\n", "", "")
	s := row[0].mustDial(row[0].addrs[0])
	sub := subscribed(t, s.Session, events.SubscribeOptions{Filter: "type:b/c/*"})
	if err := publishes(t, row[2].mustDial(row[2].addrs[0]).Session, record("1", "hidden", "one"), record("2", "k", "two")); err != nil {
		t.Fatal(err)
	}
	if list, _ := bodies(t, sub, 1); list[0] != "k=two" {
		t.Errorf("events of c: %q", list)
	}
	for _, filter := range []string{"type:b/c/k,type:b/c/hidden", "type:b/d/*", "type:b/k"} {
		_, err := events.Open(t.Context(), s.Session, events.SubscribeOptions{Filter: filter})
		refusedBy(t, filter, err, "SECURITY_POLICY", row[0])
	}
}

func TestASubscriptionThatThePartnersRulesStopIsRefusedThere(t *testing.T) {
	a, b := pairOf(t, 0, ruleAll, "access: {rules: [{identity: '**', profile: rpc}, {identity: '**', profile: events, operation: subscribe, name: open}]}\n")
	s := a.mustDial(a.addrs[0])
	there := profiles.Toward(s.Session, "b")
	subscribed(t, s.Session, events.SubscribeOptions{Filter: "type:b/open"})
	subscribed(t, there, events.SubscribeOptions{})
	for _, filter := range []string{"type:b/closed", "type:b/closed*"} {
		for range 2 { // each is told, also those that share a subscription there
			_, err := events.Open(t.Context(), s.Session, events.SubscribeOptions{Filter: filter})
			refusedBy(t, filter, err, "SECURITY_POLICY", b)
		}
	}
	_, err := events.Open(t.Context(), there, events.SubscribeOptions{Filter: "type:closed", Name: "n"})
	refusedBy(t, "with a name", err, "SECURITY_POLICY", b)
}

func TestARuleTakenAwayEndsASubscription(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		const open = "access: {rules: [{identity: '**', profile: [rpc, events]}]}\n"
		a, b := pairOf(t, transport, open, open)
		s := a.mustDial(a.addrs[transport])
		there := profiles.Toward(s.Session, "b")
		ends := func(o *organisation, rules string, subs ...*events.Subscription) {
			t.Helper()
			o.rewrite(open, rules)
			o.reloaded()
			for i, sub := range subs {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				_, err := sub.Recv(ctx)
				cancel()
				refusedBy(t, fmt.Sprintf("subscription %d", i), err, "SECURITY_POLICY", o)
			}
			o.rewrite(rules, open)
			o.reloaded()
		}
		subscribe := func(on profiles.Session, filter string) *events.Subscription {
			return subscribed(t, on, events.SubscribeOptions{Filter: filter})
		}
		ends(a, "access: {rules: [{identity: '**', profile: [rpc, events], name: ['other', 'swp.*', 'b/swp.*', 'b/other']}]}\n",
			subscribe(s.Session, "type:k"), subscribe(s.Session, "type:b/k"), subscribe(there, "type:k*"))
		ends(b, "access: {rules: [{identity: '**', profile: [rpc, events], name: ['other', 'swp.*']}]}\n",
			subscribe(s.Session, "type:b/k"), subscribe(s.Session, "type:b/k"), subscribe(there, "type:k*"),
			subscribed(t, there, events.SubscribeOptions{Filter: "type:k", Name: "n"}))
	})
}

// One client that asks for what it may not have at a partner must not cut the link of all.
func TestDenialsAtAPartnerDoNotCutTheLink(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, b := pairOf(t, transport, ruleAll, "access: {rules: [{identity: 'spiffe://a.example/**', profile: rpc}]}\n")
		s := a.mustDial(a.addrs[transport])
		for range 40 { // more than limits.error_budget
			_, err := state.PutAll(t.Context(), opened(t, profiles.Toward(s.Session, "b")), rpc.Sync, wanted)
			refusedBy(t, "a state", err, "SECURITY_POLICY", b)
		}
		if _, err := rpc.Call(t.Context(), s.Session, "b/"+rpc.MethodPing, nil); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		if strings.Contains(b.log.String(), "error_budget") {
			t.Error("the link was closed")
		}
	})
}

// One client that sends what a partner finds wrong must not cut the link of all.
func TestWrongMessagesOfACallerDoNotCutTheLink(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		a, b := pairOf(t, transport, ruleAll, ruleAll)
		p := newPeople(t)
		p.admit(a)
		alice, bob := p.dial(a, transport, aliceID), p.dial(a, transport, bobID)
		orphan := state.State{Blob: []byte("x"), Parents: []state.ID{state.IDOf([]byte("nowhere"))}}
		orphan.ID = state.IDOf(orphan.Blob)
		put := func() error {
			_, err := state.PutAll(t.Context(), opened(t, profiles.Toward(alice.Session, "b")), rpc.Sync, orphan)
			return err
		}
		for i := range 40 {
			if i < 16 { // limits.error_budget
				refusedBy(t, "a state without its parent", put(), state.CodeParentMissing, b)
			} else {
				refusedBy(t, "more of the same", put(), "RATE_LIMIT_EXCEEDED", b)
			}
			if _, err := rpc.Call(t.Context(), bob.Session, "b/"+rpc.MethodPing, nil); err != nil {
				t.Fatalf("another caller after %d refusals: %v", i+1, err)
			}
		}
		if strings.Contains(b.log.String(), "partner disconnected") {
			t.Error("the link was closed")
		}
	})
}
