package mcpmap_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/store"
)

// memory is a Store.
type memory struct {
	mu      sync.Mutex
	version uint64
	values  map[string][]byte
	expires map[string]time.Time
	owners  map[string]string
	fail    error
}

func newMemory() *memory {
	return &memory{values: make(map[string][]byte), expires: make(map[string]time.Time), owners: make(map[string]string)}
}

func (m *memory) Put(space, key string, _ uint64, owner string, value []byte, expires time.Time, done func(store.PutResult)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := store.PutResult{Err: m.fail, Wrote: m.fail == nil}
	if m.fail == nil {
		m.version++
		r.Version = m.version
		m.values[space+" "+key], m.expires[space+" "+key], m.owners[space+" "+key] = value, expires, owner
	}
	go done(r)
}

func (m *memory) Delete(space, key string, _ uint64, done func(bool, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, space+" "+key)
	go done(true, nil)
}

func (m *memory) Get(context.Context, string, string) (uint64, []byte, error) { panic("not used") }

func (m *memory) Scan(_ context.Context, space, _, _ string, yield func(string, uint64, []byte) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, value := range m.values {
		if rest, ok := strings.CutPrefix(key, space+" "); ok && !yield(rest, 1, value) {
			break
		}
	}
	return nil
}

func (m *memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.values)
}

// kept runs a test with a Mapping on a Store.
func kept(t *testing.T, m *memory, f func(alice, bob *link)) {
	t.Helper()
	srv := newServer()
	table, err := mcpmap.NewTable(map[string]mcpmap.Server{"one": srv}, "")
	if err != nil {
		t.Fatal(err)
	}
	served := mcpmap.New(mcpmap.Options{Backend: table, Store: m})
	if err := served.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	alice, bob := dial(t, served, "alice"), dial(t, served, "bob")
	alice.server, bob.server = srv, srv
	f(alice, bob)
	alice.near.Close()
	bob.near.Close()
	synctest.Wait()
}

func TestGW05ATaskHasItsOwnerAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		kept(t, m, func(alice, _ *link) {
			alice.made(alice.server, "slow", "t")
			// A task in a process ends with it.
			done := alice.do(&mcpmap.Call{Target: "one", Octets: about("tools/call", `,"name":"slow"`)})
			x := <-alice.server.modern
			x.From(&keeper{})
			x.Finish([]byte(`{"jsonrpc":"2.0","id":7,"result":{"resultType":"task","taskId":"local","ttlMs":1000}}`))
			<-done
		})
		want(t, "records", m.count(), 1)
		for key, owner := range m.owners {
			if owner != "alice" {
				t.Errorf("the record %s counts for %s", key, owner)
			}
		}
		time.Sleep(20 * time.Hour)
		kept(t, m, func(alice, bob *link) {
			if answer, served := bob.told(about("tasks/get", `,"taskId":"t"`)); served {
				t.Errorf("another caller: %s", answer)
			}
			if answer, served := alice.told(about("tasks/get", `,"taskId":"t"`)); !served {
				t.Errorf("the owner: %s", answer)
			}
		})
		time.Sleep(20 * time.Hour) // the use has renewed it
		kept(t, m, func(alice, _ *link) {
			if answer, served := alice.told(about("tasks/get", `,"taskId":"t"`)); !served {
				t.Errorf("the owner, later: %s", answer)
			}
		})
		time.Sleep(25 * time.Hour)
		kept(t, m, func(alice, _ *link) {
			if answer, served := alice.told(about("tasks/get", `,"taskId":"t"`)); served {
				t.Errorf("after a day without a question: %s", answer)
			}
		})
	})
}

func TestATaskWhoseOwnerCannotBeStoredIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.fail = errors.New("full")
		kept(t, m, func(alice, _ *link) {
			done := alice.do(&mcpmap.Call{Target: "one", Octets: about("tools/call", `,"name":"slow"`)})
			(<-alice.server.modern).Finish([]byte(`{"jsonrpc":"2.0","id":7,"result":{"resultType":"task","taskId":"t"}}`))
			if out := <-done; !strings.Contains(string(out.Octets), "whose owner cannot be stored here") || strings.Contains(string(out.Octets), "full") {
				t.Errorf("%+v", out)
			}
		})
	})
}
