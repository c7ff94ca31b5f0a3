package a2aowners

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/bridge/a2ajson"
	"github.com/slimwire/swp/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const alice, bob = "spiffe://test/alice", "spiffe://test/bob"

// memory is Records of a test.
type memory struct {
	mu      sync.Mutex
	records map[string]record
	puts    int
	fail    error
}

type record struct {
	version uint64
	owner   string
	value   []byte
	expires time.Time
}

func newMemory() *memory { return &memory{records: make(map[string]record)} }

func (m *memory) Put(space, key string, was uint64, owner string, value []byte, expires time.Time, done func(store.PutResult)) {
	m.mu.Lock()
	m.puts++
	old, fail := m.records[space+key], m.fail
	wrote := fail == nil && old.version == was
	if wrote {
		m.records[space+key] = record{was + 1, owner, bytes.Clone(value), expires}
	}
	m.mu.Unlock()
	done(store.PutResult{Wrote: wrote, Version: was + 1, Current: old.value, Err: fail})
}

func (m *memory) Get(_ context.Context, space, key string) (uint64, []byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.records[space+key]
	return r.version, r.value, m.fail
}

// object reads JSON of a test.
func object(t testing.TB, text string) a2ajson.Object {
	t.Helper()
	o, err := a2ajson.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return o
}

// operation is one of a caller, on the agent "agent".
func operation(t testing.TB, o *Owners, caller, name, input string) *Operation {
	t.Helper()
	op, ok := a2abinding.Named(name)
	if !ok {
		t.Fatalf("no operation %s", name)
	}
	p, err := o.Operation("agent", caller, op, object(t, input))
	if err != nil {
		t.Fatalf("%s %s: %v", name, input, err)
	}
	return p
}

// own has a caller be told of a task, in a tenant if that is not empty.
func own(t testing.TB, o *Owners, caller, tenant, id string) {
	t.Helper()
	input, err := json.Marshal(map[string]string{"tenant": tenant})
	if err != nil {
		t.Fatal(err)
	}
	response, err := json.Marshal(map[string]any{"task": map[string]string{"id": id}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operation(t, o, caller, a2abinding.SendMessage, string(input)).Output(t.Context(), response); err != nil {
		t.Fatal(err)
	}
}
