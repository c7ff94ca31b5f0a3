package a2ahttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/bridge/a2ajson"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what has to happen.
const patience = 5 * time.Minute

// inMemory is Records of a test.
type inMemory struct {
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

func newMemory() *inMemory { return &inMemory{records: make(map[string]record)} }

func (m *inMemory) Put(space, key string, was uint64, owner string, value []byte, expires time.Time, done func(store.PutResult)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.puts++
	old := m.records[space+key]
	switch {
	case m.fail != nil:
		go done(store.PutResult{Err: m.fail})
	case old.version != was:
		go done(store.PutResult{Version: old.version, Current: old.value})
	default:
		m.records[space+key] = record{was + 1, owner, bytes.Clone(value), expires}
		go done(store.PutResult{Wrote: true, Version: was + 1})
	}
}

func (m *inMemory) Get(_ context.Context, space, key string) (uint64, []byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.records[space+key]
	return r.version, r.value, m.fail
}

// agent is an agent at a URL that a test scripts.
type agent struct {
	*httptest.Server
	mu       sync.Mutex
	requests []asked
}

// asked is a request that an agent got.
type asked struct {
	method, uri, body string
	header            http.Header
	id                string // of JSON-RPC
}

// newAgent serves what handle writes.
func newAgent(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, q asked)) *agent {
	t.Helper()
	a := new(agent)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		q := asked{method: r.Method, uri: r.RequestURI, body: string(body), header: r.Header.Clone()}
		var object struct{ ID string }
		_ = json.Unmarshal(body, &object)
		q.id = object.ID
		a.mu.Lock()
		a.requests = append(a.requests, q)
		a.mu.Unlock()
		handle(w, r, q)
	}))
	t.Cleanup(func() {
		a.CloseClientConnections()
		a.Close()
	})
	return a
}

// asked returns what the agent was asked so far.
func (a *agent) asked() []asked {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

// operations returns what it was asked so far without the requests for its card.
func (a *agent) operations() []asked {
	return slices.DeleteFunc(a.asked(), func(q asked) bool { return q.uri == cardPath })
}

// answer writes the result of a JSON-RPC request, octet for octet.
func answer(w http.ResponseWriter, q asked, result string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%q,"result":%s}`, q.id, result)
}

// stream begins a stream of events.
func begin(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
}

// say writes an event: by JSON-RPC as a result if q has an id.
func say(w http.ResponseWriter, q asked, data string) {
	if q.id != "" {
		data = fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":%s}`, q.id, data)
	}
	_, _ = fmt.Fprintf(w, "data: %s\n\n", strings.NewReplacer("\r", "\ndata: ", "\n", "\ndata: ").Replace(data))
	_ = http.NewResponseController(w).Flush()
}

// kill closes the connection of a request.
func kill(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

// back is a Back on the other side of a test.
type back struct {
	*Back
	t        *testing.T
	records  *inMemory
	troubles chan error
	answers  atomic.Int64
}

func newBack(t *testing.T, opts BackOptions) *back {
	t.Helper()
	b := &back{t: t, troubles: make(chan error, 64)}
	opts.Name = "agent"
	if opts.Records == nil {
		opts.Records = newMemory()
	}
	b.records = opts.Records.(*inMemory)
	opts.Trouble = func(_ string, err error) {
		select {
		case b.troubles <- err:
		default:
		}
	}
	opts.Answered = func() { b.answers.Add(1) }
	var err error
	if b.Back, err = NewBack(opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// worker returns who carries out an operation.
func (b *back) worker(operation string) a2a.Worker {
	for _, r := range b.Registrations() {
		if slices.Contains(r.Kinds, "a2a/1.0/"+operation) {
			return r.Worker
		}
	}
	b.t.Fatalf("nobody carries out %s", operation)
	return nil
}

const alice, bob = "spiffe://test/alice", "spiffe://test/bob"

func taskFrom(caller, operation, input string, params ...string) *a2a.Task {
	return &a2a.Task{ID: []byte("id"), Kind: "a2a/1.0/" + operation, Input: []byte(input), Peer: caller, Params: params}
}

// run carries out a task.
func (b *back) run(t *a2a.Task) (events []string, output string, err error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	out, err := b.worker(t.Kind[len("a2a/1.0/"):]).Run(ctx, t, func(message string, payload []byte) error {
		if message != "" {
			b.t.Errorf("an event says %q", message)
		}
		events = append(events, string(payload))
		return nil
	})
	if ctx.Err() != nil {
		b.t.Fatalf("%s: %v", t.Kind, ctx.Err())
	}
	return events, string(out), err
}

// mustRun carries out a task that succeeds.
func (b *back) mustRun(t *a2a.Task) (events []string, output string) {
	b.t.Helper()
	events, output, err := b.run(t)
	if err != nil {
		b.t.Fatalf("%s: %v %s", t.Kind, err, octetsOf(err))
	}
	return events, output
}

// own has a caller be told of a task.
func (b *back) own(caller, tenant, id string) {
	b.t.Helper()
	operation, _ := a2abinding.Named(a2abinding.SendMessage)
	whose, err := b.owners.Operation("agent", caller, operation, parsed(b.t, map[string]string{"tenant": tenant}))
	if err == nil {
		err = whose.Claim(b.t.Context(), parsed(b.t, map[string]any{"task": map[string]string{"id": id}}))
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func parsed(t *testing.T, v any) a2ajson.Object {
	t.Helper()
	octets, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	o, err := a2ajson.Parse(octets)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// octetsOf returns the error object of a failure.
func octetsOf(err error) string {
	if f, ok := errors.AsType[*a2a.Failure](err); ok {
		return string(f.Output)
	}
	return ""
}

// failure returns how a task failed.
func failure(t *testing.T, err error) *a2abinding.Failure {
	t.Helper()
	f, fault := a2abinding.Parse([]byte(octetsOf(err)))
	if fault != nil {
		t.Fatalf("%v is no failure of A2A", err)
	}
	return f
}

// reason returns why this side failed.
func reason(t *testing.T, err error) string {
	t.Helper()
	var details []struct{ Reason, Domain string }
	f := failure(t, err)
	if json.Unmarshal(f.Data, &details) != nil || len(details) != 1 || details[0].Domain != "slimwire" || f.Code != a2abinding.CodeInternal {
		t.Fatalf("%s is not a failure of this side", octetsOf(err))
	}
	return details[0].Reason
}
