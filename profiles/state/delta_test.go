package state_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
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

// holed is a store after a repair that has left out some entries of logs.
type holed struct {
	*sqlstore.Store
	lost func(seq uint64) bool
}

func (h *holed) Read(ctx context.Context, space, log string, after uint64, yield func(uint64, string, []byte) bool) error {
	return h.Store.Read(ctx, space, log, after, func(seq uint64, id string, data []byte) bool {
		return h.lost(seq) || yield(seq, id, data)
	})
}

func TestST04ReadersOfDeltasAreToldOfThoseThatARepairHasLeftOut(t *testing.T) {
	engine := &holed{Store: open(t, sqlstore.Options{})}
	s := serve(t, state.Options{Store: engine})
	p := s.dial(alice)
	base := of("base")
	p.mustPut(base)
	for i := 1; i <= 210; i++ {
		if err := p.delta(base.ID, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	gap := func(after, lost uint64) state.Gap { return state.Gap{After: after, Lost: lost} }
	for name, row := range map[string]struct {
		lost func(seq uint64) bool
		want state.Lost
	}{
		"none":       {func(uint64) bool { return false }, state.Lost{}},
		"the first":  {func(n uint64) bool { return n == 1 }, state.Lost{Deltas: 1, Gaps: []state.Gap{gap(0, 1)}}},
		"the middle": {func(n uint64) bool { return n == 4 || n == 5 || n == 9 }, state.Lost{Deltas: 3, Gaps: []state.Gap{gap(3, 2), gap(6, 1)}}},
		"the last":   {func(n uint64) bool { return n > 208 }, state.Lost{Deltas: 2, Gaps: []state.Gap{gap(208, 2)}}},
		"all":        {func(uint64) bool { return true }, state.Lost{Deltas: 210, Gaps: []state.Gap{gap(0, 210)}}},
		"many":       {func(n uint64) bool { return n%2 == 1 }, state.Lost{Deltas: 105}},
	} {
		engine.lost = row.lost
		n := uint64(0)
		got, err := s.state.Deltas(t.Context(), &profiles.Peer{Identity: alice}, base.ID[:], func([]byte) error { n++; return nil })
		if err != nil {
			t.Fatal(err)
		}
		if name == "many" {
			if len(got.Gaps) != 100 || got.Gaps[99] != gap(99, 1) {
				t.Errorf("%d gaps, want the first 100", len(got.Gaps))
			}
			got.Gaps = nil
		}
		if !reflect.DeepEqual(*got, row.want) || n+got.Deltas != 210 {
			t.Errorf("%s: %+v with %d deltas, want %+v", name, *got, n, row.want)
		}
		octets, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if read, err := state.ReadLost(octets); err != nil || read.Deltas != got.Deltas || !slices.Equal(read.Gaps, got.Gaps) {
			t.Errorf("%s: read as %+v, %v", name, read, err)
		}
	}
	if read, err := state.ReadLost(nil); err != nil || read.Deltas != 0 {
		t.Errorf("of an endpoint that says nothing: %+v, %v", read, err)
	}
	if _, err := state.ReadLost([]byte("[")); err == nil {
		t.Error("a result that is no JSON is taken")
	}
}
