package state_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/transport/endpoint/endpointtest"
)

func TestDeltasAreKeptInOrderOctetForOctet(t *testing.T) {
	s := serve(t, state.Options{Store: open(t, sqlstore.Options{})})
	p := s.dial(alice)
	base := of("base")
	lane := p.lane()
	// The state, and changes of it right behind.
	if err := lane.Send(t.Context(), e1.Envelope{ProfileID: state.ProfileID, MsgType: state.TypePut, Payload: putPayload(base)}); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 100 {
		d := fmt.Sprintf("\x00\xff delta %d \x1a\x00", i)
		want = append(want, d)
		m := state.Delta{StateID: base.ID[:], Delta: []byte(d), ParentIDs: [][]byte{base.ID[:]}}
		if err := lane.Send(t.Context(), e1.Envelope{ProfileID: state.ProfileID, MsgType: state.TypeDelta, Payload: m.Append(nil)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := endpointtest.CallSync(t.Context(), lane); err != nil {
		t.Fatal(err)
	}
	got, err := s.deltas(alice, base.ID)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d deltas %q, %v, want %d", len(got), got, err, len(want))
	}
	// The state is what it was.
	if got, err := p.get(base.ID); err != nil || string(got.Blob) != "base" {
		t.Errorf("the base is %v, %v", got, err)
	}
}

func TestADeltaThatIsSentAgainIsKeptOnce(t *testing.T) {
	engine := open(t, sqlstore.Options{})
	s := serve(t, state.Options{Store: engine})
	p := s.dial(alice)
	base := of("base")
	p.mustPut(base)
	for range 3 {
		if err := p.delta(base.ID, "change"); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.delta(base.ID, "change", base.ID); err != nil { // of another origin, so another
		t.Fatal(err)
	}
	if err := s.dial(bob).delta(base.ID, "change"); err != nil { // and of another identity
		t.Fatal(err)
	}
	if got, err := s.deltas(alice, base.ID); err != nil || len(got) != 3 {
		t.Errorf("deltas %q, %v, want three", got, err)
	}
}

func TestADeltaNeedsItsStateAndItsParents(t *testing.T) {
	s := serve(t, state.Options{Store: open(t, sqlstore.Options{})})
	p := s.dial(alice)
	base, unknown := of("base"), of("unknown")
	p.mustPut(base)
	wantCode(t, p.delta(unknown.ID, "d"), state.CodeNotFound)
	wantCode(t, p.delta(base.ID, "d", unknown.ID), state.CodeParentMissing)
	wantCode(t, p.delta(base.ID, "d", base.ID, base.ID), "INVALID_PROFILE_PAYLOAD")
	wantCode(t, p.delta(base.ID, "d", make([]state.ID, state.MaxParents+1)...), "INVALID_PROFILE_PAYLOAD")
	wantCode(t, p.delta(base.ID, ""), "INVALID_PROFILE_PAYLOAD")
	if got, err := s.deltas(alice, base.ID); err != nil || len(got) != 0 {
		t.Errorf("deltas %q, %v, want none", got, err)
	}
	// NOT_FOUND is an answer, the others are faults.
	if n := s.count(state.CodeNotFound); n != 1 {
		t.Errorf("%d verdicts NOT_FOUND", n)
	}
}
