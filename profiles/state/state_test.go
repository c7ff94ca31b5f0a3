package state_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/p1"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/store/sqlstore"
	"github.com/slimwire/swp/transport/endpoint/endpointtest"
)

var (
	schemaBlob = []byte(`{"type":"object"}`)
	schemaID   = state.IDOf(schemaBlob)
)

// schemas is a Source that shows one blob to one identity.
type schemas string

func (s schemas) BlobFor(identity string, digest []byte) ([]byte, bool) {
	return schemaBlob, identity == string(s) && string(digest) == string(schemaID[:])
}

func fresh(t testing.TB) *profiles.Profile {
	return newService(t, state.Options{Store: open(t, sqlstore.Options{}), Sources: []state.Source{schemas("spiffe://profiletest/peer")}}).Profile()
}

func putPayload(s state.State) []byte {
	m := state.Put{StateID: s.ID[:], Blob: s.Blob, Metadata: s.Metadata}
	for i := range s.Parents {
		m.ParentIDs = append(m.ParentIDs, s.Parents[i][:])
	}
	return m.Append(nil)
}

func contract() []profiletest.Case {
	root, nowhere := of("root"), of("nowhere")
	root.Metadata = []byte("m")
	return []profiletest.Case{
		{Name: "put", Type: state.TypePut, Payload: putPayload(root)},
		{Name: "put of a child whose parent is missing", Type: state.TypePut, Payload: putPayload(of("child", root)), Code: profiles.InvalidProfilePayload},
		{Name: "get", Type: state.TypeGet, Payload: (&state.Get{StateID: schemaID[:]}).Append(nil), Answers: []uint64{state.TypePut}},
		{Name: "get of nothing", Type: state.TypeGet, Payload: (&state.Get{StateID: nowhere.ID[:]}).Append(nil), Code: profiles.NotFound},
		{Name: "delta", Type: state.TypeDelta, Payload: (&state.Delta{StateID: nowhere.ID[:], Delta: []byte("d")}).Append(nil), Code: profiles.NotFound},
		{Name: "unsolicited err", Type: state.TypeErr, Payload: (&state.Err{Code: []byte("c")}).Append(nil)},
	}
}

func TestContract(t *testing.T) { profiletest.Run(t, fresh, contract()...) }

func FuzzServe(f *testing.F) { profiletest.Fuzz(f, fresh, contract()...) }

func TestAStateComesBackAsItWasPut(t *testing.T) {
	effort.Unwatched(t)
	for _, kind := range []string{"pipe", "mux"} {
		t.Run(kind, func(t *testing.T) {
			s := serve(t, state.Options{Store: open(t, sqlstore.Options{})})
			s.reach = endpointtest.Serve(t, kind, s.ep)
			p := s.dial(alice)
			a, b := of("a"), of("\x00b\xff")
			c := of("c", b, a)
			c.Metadata = []byte("\xff\x00meta")
			large := of(string(bytes.Repeat([]byte("large"), 1_600_000)), c)
			p.mustPut(a, b, c, large)
			for _, want := range []state.State{a, b, c, large} {
				got, err := p.get(want.ID)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(&want, got, cmp.Transformer("nil", func(b []byte) string { return string(b) }),
					cmp.Transformer("list", func(ids []state.ID) string { return fmt.Sprint(ids) })); diff != "" {
					t.Errorf("what was put is not what is there:\n%s", diff)
				}
			}
		})
	}
}

func TestWhatIsPutIsThereForAGetBehindIt(t *testing.T) {
	s := serve(t, state.Options{Store: open(t, sqlstore.Options{})})
	lane := s.dial(alice).lane()
	for i := range 50 {
		one := of(fmt.Sprint("state ", i))
		if err := lane.Send(t.Context(), e1.Envelope{ProfileID: state.ProfileID, MsgType: state.TypePut, Payload: putPayload(one)}); err != nil {
			t.Fatal(err)
		}
		if _, err := state.Fetch(t.Context(), lane, one.ID); err != nil {
			t.Fatal(err)
		}
	}
}

func TestChildrenMayFollowTheirParentsWithoutWaiting(t *testing.T) {
	s := serve(t, state.Options{Store: open(t, sqlstore.Options{Dir: t.TempDir()})})
	list := []state.State{of("0"), of("1")}
	for i := 2; i < effort.Rounds(500); i++ { // each has two parents, the later of which was only just sent
		list = append(list, of(fmt.Sprint(i), list[i-1], list[i-2]))
	}
	p := s.dial(alice)
	p.mustPut(list...)
	if got, err := p.get(list[len(list)-1].ID); err != nil || len(got.Parents) != 2 {
		t.Errorf("the last is %v, %v", got, err)
	}
	// The other way round the first to come is refused, and those after it.
	family := []state.State{of("grandchild", of("child", of("parent"))), of("child", of("parent")), of("parent")}
	n, err := p.put(family...)
	if n != 0 {
		t.Errorf("%d are said to be stored before the first that is not", n)
	}
	wantCode(t, err, state.CodeParentMissing)
	for i, want := range []bool{false, false, true} {
		if _, err := p.get(family[i].ID); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", family[i].Blob, err, want)
		}
	}
}

// PR-11
func TestPR11WhatIsNoStateIsRefused(t *testing.T) {
	engine := open(t, sqlstore.Options{})
	s := serve(t, state.Options{Store: engine})
	p := s.dial(alice)
	root := of("root")
	var many []state.State
	for i := range state.MaxParents + 1 {
		many = append(many, of(fmt.Sprint("parent ", i)))
	}
	p.mustPut(append(many, root)...)
	used := usedBy(t, engine)

	child := of("child", root)
	raw := func(change func(*state.Put)) []byte {
		m := state.Put{StateID: child.ID[:], Blob: child.Blob, ParentIDs: [][]byte{root.ID[:]}}
		change(&m)
		return m.Append(nil)
	}
	other := of("other")
	for name, test := range map[string]struct {
		payload []byte
		code    string
	}{
		"an id that is not the digest": {raw(func(m *state.Put) { m.StateID = other.ID[:] }), state.CodeHashMismatch},
		"an id that is too short":      {raw(func(m *state.Put) { m.StateID = m.StateID[1:] }), state.CodeHashMismatch},
		"an id that is too long":       {raw(func(m *state.Put) { m.StateID = append(bytes.Clone(m.StateID), 0) }), state.CodeHashMismatch},
		"a missing parent":             {raw(func(m *state.Put) { m.ParentIDs = append(m.ParentIDs, other.ID[:]) }), state.CodeParentMissing},
		"itself as parent":             {raw(func(m *state.Put) { m.ParentIDs = append(m.ParentIDs, child.ID[:]) }), "INVALID_PROFILE_PAYLOAD"},
		"a parent twice":               {raw(func(m *state.Put) { m.ParentIDs = append(m.ParentIDs, root.ID[:]) }), "INVALID_PROFILE_PAYLOAD"},
		"a parent of 31 octets":        {raw(func(m *state.Put) { m.ParentIDs = [][]byte{root.ID[1:]} }), "INVALID_PROFILE_PAYLOAD"},
		"an empty parent":              {raw(func(m *state.Put) { m.ParentIDs = [][]byte{{}} }), "INVALID_PROFILE_PAYLOAD"},
		"65 parents":                   {putPayload(of("child of 65", many...)), "INVALID_PROFILE_PAYLOAD"},
		"an empty blob":                {raw(func(m *state.Put) { m.Blob = nil }), "INVALID_PROFILE_PAYLOAD"},
	} {
		lane := p.lane()
		call, err := lane.Call(t.Context(), e1.Envelope{ProfileID: state.ProfileID, MsgType: state.TypePut, Payload: test.payload})
		if err != nil {
			t.Fatal(err)
		}
		env, err := call.Recv(t.Context())
		var m state.Err
		if err != nil || env.MsgType != state.TypeErr || m.Decode(env.Payload) != nil || string(m.Code) != test.code {
			t.Errorf("%s: answered with %v, %v %q, want %s", name, env, err, m.Code, test.code)
		}
		call.Close()
	}
	if now := usedBy(t, engine); now != used {
		t.Errorf("the store has grown from %d to %d octets", used, now)
	}
	p.mustPut(of("child of 64", many[:state.MaxParents]...))
}

// PR-11
func TestPR11TheSameStateAgainChangesNothing(t *testing.T) {
	engine := open(t, sqlstore.Options{})
	p := serve(t, state.Options{Store: engine}).dial(alice)
	root, other := of("root"), of("other")
	child := of("child", root)
	child.Metadata = []byte("first")
	p.mustPut(root, other, child)
	used := usedBy(t, engine)
	again := make([]state.State, 1000)
	for i := range again {
		again[i] = child
	}
	p.mustPut(again...)
	for name, change := range map[string]func(*state.State){
		"other parents":  func(s *state.State) { s.Parents = []state.ID{other.ID} },
		"more parents":   func(s *state.State) { s.Parents = []state.ID{root.ID, other.ID} },
		"no parents":     func(s *state.State) { s.Parents = nil },
		"other metadata": func(s *state.State) { s.Metadata = []byte("second") },
		"no metadata":    func(s *state.State) { s.Metadata = nil },
	} {
		changed := child
		change(&changed)
		_, err := p.put(changed)
		if wantCode(t, err, state.CodeConflict); t.Failed() {
			t.Fatalf("%s", name)
		}
	}
	got, err := p.get(child.ID)
	if err != nil || len(got.Parents) != 1 || got.Parents[0] != root.ID || string(got.Metadata) != "first" {
		t.Errorf("the state is now %v, %v", got, err)
	}
	if now := usedBy(t, engine); now != used {
		t.Errorf("the store has grown from %d to %d octets", used, now)
	}
}

// RS-06, as far as parent_ids are concerned.
func TestRS06MillionsOfParentsCostNothing(t *testing.T) {
	effort.Unwatched(t)
	h := profiletest.New(t, fresh(t))
	id := of("b").ID
	body := p1.AppendBytes(p1.AppendBytes(nil, 1, id[:]), 2, []byte("b"))
	for len(body) < 8<<20-16<<10 {
		body = append(body, 0x1a, 0) // an empty element of parent_ids
	}
	for _, msgType := range []uint64{state.TypePut, state.TypeDelta} {
		payload := append(p1.AppendHeader(nil, msgType, len(body)), body...)
		var m state.Put
		var d state.Delta
		allocs := testing.AllocsPerRun(1, func() {
			if m.Decode(payload) == nil || d.Decode(payload) == nil {
				t.Error("accepted")
			}
		})
		if allocs > 20 {
			t.Errorf("%v allocations to refuse it", allocs)
		}
		if err := h.Serve(msgType, payload).Err(); err == nil || err.Code != profiles.InvalidProfilePayload || err.Detail != p1.DetailCount {
			t.Errorf("type %d: %v, want it refused by its count", msgType, err)
		}
	}
}

func TestAnEndpointWithoutAStoreKeepsNothing(t *testing.T) {
	p := serve(t, state.Options{Sources: []state.Source{schemas(alice)}}).dial(alice)
	_, err := p.put(of("a"))
	wantCode(t, err, "SECURITY_POLICY")
	wantCode(t, p.delta(of("a").ID, "d"), "SECURITY_POLICY")
	_, err = p.get(of("a").ID)
	wantCode(t, err, state.CodeNotFound)
	if got, err := p.get(schemaID); err != nil || !bytes.Equal(got.Blob, schemaBlob) || len(got.Parents) != 0 {
		t.Errorf("blob of a source: %v, %v", got, err)
	}
}

func TestABlobOfASourceIsForWhomItAllows(t *testing.T) {
	s := serve(t, state.Options{Store: open(t, sqlstore.Options{}), Sources: []state.Source{schemas(alice)}})
	_, err := s.dial(bob).get(schemaID)
	wantCode(t, err, state.CodeNotFound)
	// It is no state: it has no children and takes no deltas.
	p := s.dial(alice)
	_, err = p.put(of("child", state.State{ID: schemaID}))
	wantCode(t, err, state.CodeParentMissing)
	wantCode(t, p.delta(schemaID, "d"), state.CodeNotFound)
}

func TestNewRefusesANegativeRetention(t *testing.T) {
	if _, err := state.New(state.Options{Retention: -1}); err == nil {
		t.Error("accepted")
	}
}

func TestCloseRefusesWhatComesLater(t *testing.T) {
	svc := newService(t, state.Options{Store: open(t, sqlstore.Options{})})
	h := profiletest.New(t, svc.Profile())
	svc.Close()
	svc.Close()
	x := h.Serve(state.TypePut, putPayload(of("a"))).Wait()
	if err := x.Err(); err == nil || err.Code != profiles.RateLimitExceeded || !err.Retryable {
		t.Errorf("PUT after Close: %v", err)
	}
	if _, err := svc.Deltas(t.Context(), &profiles.Peer{}, make([]byte, 31), nil); profiles.AsError(err).Code != profiles.NotFound {
		t.Errorf("deltas of what is no id: %v", err)
	}
}
