package state_test

import (
	"encoding/hex"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

func hexOf(id state.ID) string { return hex.EncodeToString(id[:]) }

// answers are the octets of what a GET is answered with.
func answers(t *testing.T, p *peer, id state.ID) string {
	t.Helper()
	call, err := p.Call(t.Context(), e1.Envelope{
		ProfileID: state.ProfileID, MsgType: state.TypeGet, Payload: (&state.Get{StateID: id[:]}).Append(nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer call.Close()
	env, err := call.Recv(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(append([]byte{byte(env.MsgType)}, env.Payload...))
}

// PR-04 asks this of tasks; states are no different.
func TestPR04AStateOfAnotherLooksLikeOneThatThereIsNot(t *testing.T) {
	secret, unknown := of("secret"), of("unknown")
	s := serve(t, state.Options{Store: open(t, sqlstore.Options{}), Access: rules{
		alice + " put *": true, bob + " put *": true, carol + " put *": true,
		carol + " get " + hexOf(secret.ID): true, carol + " delta " + hexOf(secret.ID): true,
	}})
	a, b, c := s.dial(alice), s.dial(bob), s.dial(carol)
	a.mustPut(secret)

	if there, not := answers(t, b, secret.ID), answers(t, b, unknown.ID); there != not {
		t.Errorf("GET of a secret is answered with %q, of nothing with %q", there, not)
	}
	for _, parent := range []state.State{secret, unknown} {
		_, err := b.put(of("child", parent))
		wantCode(t, err, state.CodeParentMissing)
		wantCode(t, b.delta(parent.ID, "d"), state.CodeNotFound)
		if _, err := s.deltas(bob, parent.ID); profiles.AsError(err).Code != profiles.NotFound {
			t.Errorf("deltas: %v", err)
		}
		if err := s.forget(bob, parent.ID); err != nil {
			t.Error(err)
		}
	}
	// Its owner needs no rule to see it, and carol has one.
	for _, p := range []*peer{a, c} {
		if got, err := p.get(secret.ID); err != nil || string(got.Blob) != "secret" {
			t.Errorf("%v, %v", got, err)
		}
	}
	c.mustPut(of("child", secret))
	if err := c.delta(secret.ID, "from carol"); err != nil {
		t.Error(err)
	}
	if err := a.delta(secret.ID, "from alice"); err != nil {
		t.Error(err)
	}
	for _, identity := range []string{alice, carol} {
		if got, err := s.deltas(identity, secret.ID); err != nil || len(got) != 2 || got[0] != "from carol" || got[1] != "from alice" {
			t.Errorf("%s reads deltas %q, %v", identity, got, err)
		}
	}
}

func TestPuttingNeedsARule(t *testing.T) {
	a, b := of("a"), of("b")
	p := serve(t, state.Options{Store: open(t, sqlstore.Options{}), Access: rules{alice + " put " + hexOf(a.ID): true}}).dial(alice)
	p.mustPut(a)
	_, err := p.put(b)
	wantCode(t, err, "SECURITY_POLICY")
}

func TestEachOwnerHasAStateOfItsOwn(t *testing.T) {
	engine := open(t, sqlstore.Options{})
	s := serve(t, state.Options{Store: engine, Access: rules{
		alice + " put *": true, bob + " put *": true, carol + " get *": true,
	}})
	a, b, c := s.dial(alice), s.dial(bob), s.dial(carol)
	one := of("the same")
	one.Metadata = []byte("of alice")
	a.mustPut(one)
	before := usedBy(t, engine)
	other := one
	other.Metadata = []byte("of bob")
	b.mustPut(other) // which is no conflict: bob does not learn that there is another
	if grown := usedBy(t, engine) - before; grown < int64(len(other.Blob)) {
		t.Errorf("the state of bob takes %d octets", grown)
	}
	for name, want := range map[*peer]string{a: "of alice", b: "of bob", c: "of alice"} {
		if got, err := name.get(one.ID); err != nil || string(got.Metadata) != want {
			t.Errorf("%v, %v, want the one %s", got, err, want)
		}
	}
	// What is forgotten is that of its owner.
	if err := s.forget(alice, one.ID); err != nil {
		t.Fatal(err)
	}
	_, err := a.get(one.ID)
	wantCode(t, err, state.CodeNotFound)
	for _, p := range []*peer{b, c} {
		if got, err := p.get(one.ID); err != nil || string(got.Metadata) != "of bob" {
			t.Errorf("%v, %v, want the one of bob", got, err)
		}
	}
	// A first one that comes later is the first there is a note of, which is written
	// before what comes after it.
	a.mustPut(one)
	a.mustPut(of("later"))
	if got, err := c.get(one.ID); err != nil || string(got.Metadata) != "of alice" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAQuotaIsThatOfTheOwner(t *testing.T) {
	engine := open(t, sqlstore.Options{Limits: store.Limits{QuotaPerOwner: 4096}})
	s := serve(t, state.Options{Store: engine})
	a, b := s.dial(alice), s.dial(bob)
	large := of(string(make([]byte, 3000)))
	a.mustPut(large)
	_, err := a.put(of(string(make([]byte, 2000))), of("child", of(string(make([]byte, 2000)))))
	wantCode(t, err, "RATE_LIMIT_EXCEEDED")
	_, err = a.get(of("child").ID)
	wantCode(t, err, state.CodeNotFound)
	b.mustPut(large) // paid for by bob
	if _, err := a.get(large.ID); err != nil {
		t.Errorf("what was accepted before: %v", err)
	}
	// There is room again for who makes room.
	if err := s.forget(alice, large.ID); err != nil {
		t.Fatal(err)
	}
	a.mustPut(of(string(make([]byte, 2000))))
}

func TestWhatIsForgottenIsNoParent(t *testing.T) {
	s := serve(t, state.Options{Store: open(t, sqlstore.Options{})})
	p := s.dial(alice)
	root := of("root")
	p.mustPut(root, of("child", root))
	if err := p.delta(root.ID, "d"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} { // the second time there is nothing to forget
		if was, err := s.forgotten(alice, root.ID); err != nil || was != want {
			t.Fatalf("forgotten %v, want %v, error %v", was, want, err)
		}
	}
	_, err := p.put(of("another child", root))
	wantCode(t, err, state.CodeParentMissing)
	if _, err := p.get(of("child").ID); err != nil {
		t.Errorf("the child: %v", err)
	}
	p.mustPut(root)
	if got, err := s.deltas(alice, root.ID); err != nil || len(got) != 0 {
		t.Errorf("deltas of before: %q, %v", got, err)
	}
}

func TestAStateIsKeptForTheRetentionAfterItWasLastPut(t *testing.T) {
	var now atomic.Int64
	clock := func() time.Time { return time.Unix(1_700_000_000, now.Load()) }
	pass := func(d time.Duration) { now.Add(int64(d)) }
	engine := open(t, sqlstore.Options{Now: clock})
	p := serve(t, state.Options{Store: engine, Retention: time.Hour, Now: clock}).dial(alice)
	root := of("root")
	for range 3 { // renewed twice
		p.mustPut(root)
		pass(time.Hour - time.Second)
		if _, err := p.get(root.ID); err != nil {
			t.Fatal(err)
		}
	}
	pass(2 * time.Second)
	_, err := p.get(root.ID)
	wantCode(t, err, state.CodeNotFound)
	_, err = p.put(of("child", root))
	wantCode(t, err, state.CodeParentMissing)
}

func TestHowLongStatesAreKeptChanges(t *testing.T) {
	var now atomic.Int64
	clock := func() time.Time { return time.Unix(1_700_000_000, now.Load()) }
	engine := open(t, sqlstore.Options{Now: clock})
	h := serve(t, state.Options{Store: engine, Now: clock})
	p := h.dial(alice)
	always, brief, again := of("always"), of("brief"), of("again")
	p.mustPut(always)
	h.state.SetRetention(time.Hour)
	p.mustPut(brief)
	p.mustPut(again)
	h.state.SetRetention(0)
	p.mustPut(again) // kept until it is forgotten from now on
	p.mustPut(of("child", brief))
	now.Add(int64(2 * time.Hour))
	for _, kept := range []state.State{always, again} {
		if _, err := p.get(kept.ID); err != nil {
			t.Errorf("%s: %v", kept.Blob, err)
		}
	}
	_, err := p.get(brief.ID)
	wantCode(t, err, state.CodeNotFound)
	_, err = p.put(of("another child", brief)) // it was seen, and is not there any more
	wantCode(t, err, state.CodeParentMissing)
}

// A state that was stored for a time is not kept for good because the next process keeps
// states for good, unless it is put again.
func TestAStateStoredForATimeExpiresAfterARestartWithoutRetention(t *testing.T) {
	var now atomic.Int64
	clock := func() time.Time { return time.Unix(1_700_000_000, now.Load()) }
	engine := open(t, sqlstore.Options{Now: clock})
	brief, again := of("brief"), of("again")
	before := serve(t, state.Options{Store: engine, Retention: time.Hour, Now: clock}).dial(alice)
	before.mustPut(brief)
	before.mustPut(again)
	p := serve(t, state.Options{Store: engine, Now: clock}).dial(alice)
	if _, err := p.get(brief.ID); err != nil {
		t.Fatal(err)
	}
	p.mustPut(of("child", brief))
	p.mustPut(again)
	now.Add(int64(2 * time.Hour))
	if _, err := p.get(again.ID); err != nil {
		t.Errorf("the state that was put again: %v", err)
	}
	_, err := p.get(brief.ID)
	wantCode(t, err, state.CodeNotFound)
	_, err = p.put(of("another child", brief))
	wantCode(t, err, state.CodeParentMissing)
}

func TestAStatePutAgainForATimeExpires(t *testing.T) {
	var now atomic.Int64
	clock := func() time.Time { return time.Unix(1_700_000_000, now.Load()) }
	h := serve(t, state.Options{Store: open(t, sqlstore.Options{Now: clock}), Now: clock})
	p := h.dial(alice)
	root := of("root")
	p.mustPut(root)
	h.state.SetRetention(time.Hour)
	p.mustPut(root)
	now.Add(int64(2 * time.Hour))
	_, err := p.get(root.ID)
	wantCode(t, err, state.CodeNotFound)
	_, err = p.put(of("child", root))
	wantCode(t, err, state.CodeParentMissing)
}

// Others see the state that was put first, for as long as it is renewed.
func TestTheStateThatWasPutFirstStaysTheFirstWhileItIsRenewed(t *testing.T) {
	for _, owners := range [][2]string{{alice, bob}, {bob, alice}} {
		var now atomic.Int64
		clock := func() time.Time { return time.Unix(1_700_000_000, now.Load()) }
		h := serve(t, state.Options{Store: open(t, sqlstore.Options{Now: clock}), Retention: time.Hour, Now: clock})
		for range 3 {
			for _, owner := range owners {
				s := of("shared")
				s.Metadata = []byte(owner)
				h.dial(owner).mustPut(s)
			}
			now.Add(int64(time.Hour - time.Second))
		}
		got, err := h.dial(carol).get(of("shared").ID)
		if err != nil || string(got.Metadata) != owners[0] {
			t.Errorf("%s was first: found that of %q, %v", owners[0], got.Metadata, err)
		}
	}
}
