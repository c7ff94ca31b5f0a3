package state_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/store/sqlstore"
)

// logOf lists the blobs of a log with their depths.
func logOf(t *testing.T, p *peer, id state.ID, most int) (list []string, more bool) {
	t.Helper()
	more, err := state.Log(t.Context(), p.Session, id, most, func(l state.Logged) bool {
		if l.State == nil {
			list = append(list, fmt.Sprint("missing ", l.Depth))
		} else {
			list = append(list, fmt.Sprintf("%s %d", l.State.Blob, l.Depth))
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return list, more
}

func TestALogHasEachAncestorOnceNearerOnesFirst(t *testing.T) {
	s := serve(t, state.Options{Store: open(t, sqlstore.Options{})})
	p := s.dial(alice)
	root := of("root")
	left, right := of("left", root), of("right", root)
	join := of("join", left, right)
	top := of("top", join, root)
	p.mustPut(root, left, right, join, top)

	want := "[top 0 join 1 root 1 left 2 right 2]"
	if got, more := logOf(t, p, top.ID, 5); fmt.Sprint(got) != want || more {
		t.Errorf("%v, more %v, want %s", got, more, want)
	}
	if got, more := logOf(t, p, top.ID, 4); fmt.Sprint(got) != "[top 0 join 1 root 1 left 2]" || !more {
		t.Errorf("%v, more %v, want four, and more", got, more)
	}
	if err := s.forget(alice, left.ID); err != nil {
		t.Fatal(err)
	}
	if got, _ := logOf(t, p, join.ID, 10); fmt.Sprint(got) != "[join 0 missing 1 right 1 root 2]" {
		t.Errorf("%v, want one missing", got)
	}
	_, err := state.Log(t.Context(), p.Session, left.ID, 10, func(state.Logged) bool { return true })
	wantCode(t, err, state.CodeNotFound)
	more, err := state.Log(t.Context(), p.Session, top.ID, 10, func(state.Logged) bool { return false })
	if err != nil || !more {
		t.Errorf("stopped after one: more %v, %v", more, err)
	}
}

func TestTheWordOfAPeerIsNotTakenForAState(t *testing.T) {
	asked, other := of("asked"), of("other")
	self := of("asked")
	self.Parents = []state.ID{self.ID}
	forged := of("forged")
	forged.ID = asked.ID
	for name, answer := range map[string]e1.Envelope{
		"another state":         {MsgType: state.TypePut, Payload: putPayload(other)},
		"another blob":          {MsgType: state.TypePut, Payload: putPayload(forged)},
		"its own parent":        {MsgType: state.TypePut, Payload: putPayload(self)},
		"a refusal without why": {MsgType: state.TypeErr, Payload: []byte{0x22, 0}},
		"no state at all":       {MsgType: state.TypePut, Payload: []byte{0x0a, 0}},
	} {
		liar := *newService(t, state.Options{}).Profile()
		liar.Handler = profiles.HandlerFunc(func(_ context.Context, _ *profiles.Request, w profiles.Responder) error { return w.Finish(answer) })
		theirs, err := profiles.NewRegistry(&liar)
		if err != nil {
			t.Fatal(err)
		}
		mine, err := profiles.NewRegistry(newService(t, state.Options{}).Profile())
		if err != nil {
			t.Fatal(err)
		}
		a, b := profiletest.Pair("a", mine, "b", theirs, profiletest.SessionOptions{})
		if got, err := state.Fetch(t.Context(), a, asked.ID); err == nil {
			t.Errorf("%s: taken for %v", name, got)
		}
		a.Close()
		a.Wait()
		b.Wait()
	}
}

func TestAChangeIsReadOnlyFromADeltaOfItsState(t *testing.T) {
	base, other := of("base"), of("other")
	m := state.Delta{StateID: base.ID[:], Delta: []byte("d"), ParentIDs: [][]byte{other.ID[:]}}
	c, err := state.ReadChange(m.Append(nil), base.ID)
	if err != nil || string(c.Delta) != "d" || len(c.Parents) != 1 || c.Parents[0] != other.ID {
		t.Errorf("%v, %v", c, err)
	}
	if _, err := state.ReadChange(m.Append(nil), other.ID); err == nil {
		t.Error("a delta of another state was accepted")
	}
	m.ParentIDs = [][]byte{other.ID[1:]}
	if _, err := state.ReadChange(m.Append(nil), base.ID); err == nil {
		t.Error("a parent of 31 octets was accepted")
	}
	if _, err := state.ReadChange([]byte("?"), base.ID); err == nil {
		t.Error("octets were accepted")
	}
}
