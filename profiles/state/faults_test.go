package state_test

import (
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

// faulty is an engine that fails or holds up writes of states.
type faulty struct {
	*sqlstore.Store
	mu   sync.Mutex
	fail func(value []byte) error // decides on each write of a state
	held []func()                 // those that are held up
	hold bool
}

func (f *faulty) Put(space, key string, was uint64, owner string, value []byte, expires time.Time, done func(store.PutResult)) {
	write := func() { f.Store.Put(space, key, was, owner, value, expires, done) }
	f.mu.Lock()
	defer f.mu.Unlock()
	if space == "state" {
		if f.hold {
			f.held = append(f.held, write)
			return
		}
		if err := f.fail(value); err != nil {
			go done(store.PutResult{Err: err})
			return
		}
	}
	write()
}

// release lets go of what is held up, and returns how much that was.
func (f *faulty) release() int {
	f.mu.Lock()
	held := f.held
	f.held = nil
	f.mu.Unlock()
	for _, write := range held {
		write()
	}
	return len(held)
}

func newFaulty(t *testing.T) *faulty {
	return &faulty{Store: open(t, sqlstore.Options{}), fail: func([]byte) error { return nil }}
}

func TestAChildIsNotStoredWhoseParentCouldNotBe(t *testing.T) {
	engine := newFaulty(t)
	p := serve(t, state.Options{Store: engine}).dial(alice)
	parent := of("parent")
	child := of("child", parent)
	broken := string(putPayload(parent))
	engine.fail = func(value []byte) error {
		if string(value) == broken {
			return store.ErrUnavailable
		}
		return nil
	}
	n, err := p.put(of("before"), parent, child, of("grandchild", child))
	if n != 1 {
		t.Errorf("%d confirmed, want the first", n)
	}
	wantCode(t, err, "RATE_LIMIT_EXCEEDED")
	for _, s := range []state.State{parent, child, of("grandchild")} {
		_, err := p.get(s.ID)
		wantCode(t, err, state.CodeNotFound)
	}
	broken = ""
	p.mustPut(of("before"), parent, child, of("grandchild", child))
}

func TestAChildIsWrittenAfterItsParentIsStored(t *testing.T) {
	engine := newFaulty(t)
	engine.hold = true
	svc := newService(t, state.Options{Store: engine})
	h := profiletest.New(t, svc.Profile())
	root := of("root")
	child := of("child", root)
	first := h.Serve(state.TypePut, putPayload(root))
	second := h.Serve(state.TypePut, putPayload(child))
	third := h.Serve(state.TypeDelta, (&state.Delta{StateID: root.ID[:], Delta: []byte("d")}).Append(nil))
	get := h.Serve(state.TypeGet, (&state.Get{StateID: child.ID[:]}).Append(nil))

	for written := 0; written < 2; { // never more than one at a time
		engine.mu.Lock()
		waits := len(engine.held)
		engine.mu.Unlock()
		if waits > 1 {
			t.Fatalf("%d are written at once", waits)
		}
		written += engine.release()
		if !get.Open() {
			break
		}
	}
	for name, x := range map[string]*profiletest.Exchange{"root": first, "child": second, "delta": third} {
		engine.release()
		if err := x.Wait().Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := get.Wait().Answers(); len(got) != 1 || got[0].MsgType != state.TypePut {
		t.Errorf("GET of the child is answered with %v", got)
	}
}

func TestCloseRefusesWhatWaitsForAnother(t *testing.T) {
	engine := newFaulty(t)
	engine.hold = true
	svc := newService(t, state.Options{Store: engine})
	h := profiletest.New(t, svc.Profile())
	root := of("root")
	first := h.Serve(state.TypePut, putPayload(root))
	second := h.Serve(state.TypePut, putPayload(of("child", root)))
	get := h.Serve(state.TypeGet, (&state.Get{StateID: root.ID[:]}).Append(nil))
	svc.Close()
	if err := second.Wait().Err(); err == nil || err.Code != profiles.RateLimitExceeded || !err.Retryable {
		t.Errorf("the child: %v, want it to be tried again", err)
	}
	// What the store has is its own to say, if it was given it in time.
	if engine.release() == 0 {
		if err := first.Wait().Err(); err == nil || err.Code != profiles.RateLimitExceeded {
			t.Errorf("the root: %v", err)
		}
		get.Wait()
		return
	}
	if err := first.Wait().Err(); err != nil {
		t.Errorf("the root: %v", err)
	}
	if got := get.Wait().Answers(); len(got) != 1 || got[0].MsgType != state.TypePut {
		t.Errorf("GET: %v", got)
	}
}

func TestTheStoreThatCanNotBeReadIsNoMissingState(t *testing.T) {
	engine := open(t, sqlstore.Options{})
	p := serve(t, state.Options{Store: engine}).dial(alice)
	p.mustPut(of("a"))
	if err := engine.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := p.get(of("a").ID)
	wantCode(t, err, "RATE_LIMIT_EXCEEDED")
	_, err = p.put(of("child", of("other")))
	wantCode(t, err, "RATE_LIMIT_EXCEEDED")
	wantCode(t, p.delta(of("other").ID, "d"), "RATE_LIMIT_EXCEEDED")
	if _, err := p.Call(t.Context(), e1.Envelope{ProfileID: state.ProfileID, MsgType: state.TypeGet}); err != nil {
		t.Errorf("the connection is gone: %v", err)
	}
}
