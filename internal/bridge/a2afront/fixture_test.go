package a2afront_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/internal/bridge/a2afront"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/store/sqlstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what must happen.
const patience = 5 * time.Minute

// agent is an agent by a script: what it does with a task.
type agent func(ctx context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error)

// bench is a front before an endpoint whose only agent is "weather". Callers say who
// they are in a header.
type bench struct {
	t       *testing.T
	front   *a2afront.Front
	server  *httptest.Server
	serving atomic.Int32 // requests that are being served
	near    *a2a.Service // of the callers' ends
	nearR   *profiles.Registry
	farR    *profiles.Registry
	asked   chan *a2a.Task // tasks that the agent was given

	mu    sync.Mutex
	links map[string]*link
}

// link is that of one caller.
type link struct {
	b      *bench
	caller string

	mu        sync.Mutex
	near, far *profiletest.Session
	refused   error // of Session
	count     int   // sessions made
}

const callerHeader = "X-Test-Caller"

// newBench returns a bench. card may be empty. Options of o that are required are
// filled in.
func newBench(t *testing.T, card string, far a2a.Options, o a2afront.Options, run agent) *bench {
	t.Helper()
	b := &bench{t: t, asked: make(chan *a2a.Task, 1024), links: make(map[string]*link)}
	disk, err := sqlstore.Open(t.Context(), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	far.Store = disk
	far.Workers = []a2a.Registration{{
		Agent: "weather", Kinds: a2abinding.Kinds(),
		Worker: a2a.WorkerFunc(func(ctx context.Context, task *a2a.Task, event func(string, []byte) error) ([]byte, error) {
			b.asked <- task
			return run(ctx, task, event)
		}),
	}}
	farA2A := b.service(far)
	b.near = b.service(a2a.Options{})
	var cards []agdisc.Card
	if card != "" {
		cards = append(cards, agdisc.Card{AgentID: "weather", Payload: []byte(card), MaxAge: time.Minute})
	}
	table, err := agdisc.NewTable(cards...)
	if err != nil {
		t.Fatal(err)
	}
	b.farR = b.registry(farA2A.Profile(), agdisc.New(agdisc.Options{Sources: []agdisc.Source{table}, Access: far.Access}).Profile())
	b.nearR = b.registry(b.near.Profile(), agdisc.New(agdisc.Options{}).Profile())
	o.Link = func(caller string) a2afront.Link { return b.link(caller) }
	o.Caller = func(r *http.Request) string { return "http:" + r.Header.Get(callerHeader) }
	o.Memory = memory.New(256 << 20)
	if b.front, err = a2afront.New(o); err != nil {
		t.Fatal(err)
	}
	b.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.serving.Add(1)
		defer b.serving.Add(-1)
		b.front.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		b.server.CloseClientConnections()
		b.server.Close()
		for _, l := range b.links {
			l.cut()
		}
		if used, top := o.Memory.Used(), o.Memory.Top(1); used != 0 || len(top) != 0 {
			t.Errorf("at the end %d octets are in use, of %v", used, top)
		}
		b.near.Close()
		farA2A.Close()
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) service(o a2a.Options) *a2a.Service {
	s, err := a2a.New(o)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *bench) registry(list ...*profiles.Profile) *profiles.Registry {
	r, err := profiles.NewRegistry(list...)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bench) link(caller string) *link {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.links[caller] == nil {
		b.links[caller] = &link{b: b, caller: caller}
	}
	return b.links[caller]
}

// Session implements a2afront.Link.
func (l *link) Session(context.Context) (a2afront.Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused != nil {
		return a2afront.Session{}, l.refused
	}
	if l.near == nil || l.near.Context().Err() != nil {
		l.near, l.far = profiletest.Pair(l.caller, l.b.nearR, "spiffe://test/swpd", l.b.farR, profiletest.SessionOptions{})
		l.count++
	}
	return a2afront.Session{Session: l.near, Tasks: l.b.near}, nil
}

// Card implements a2afront.Link.
func (l *link) Card(ctx context.Context, agent string) (agdisc.Card, error) {
	s, err := l.Session(ctx)
	if err != nil {
		return agdisc.Card{}, err
	}
	card, err := agdisc.Ask(ctx, s, agent, "")
	if err != nil {
		return agdisc.Card{}, err
	}
	return *card, nil
}

// cut ends the session of the link.
func (l *link) cut() {
	l.mu.Lock()
	near, far := l.near, l.far
	l.mu.Unlock()
	if near != nil {
		near.Close()
		near.Wait()
		far.Wait()
	}
}

// refuse has the link get no session any more, or again.
func (l *link) refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = err
}

// answer is a response of the front.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request. Of header, "Name: value" each; one without a value removes it.
func (b *bench) do(method, path, body string, header ...string) answer {
	b.t.Helper()
	resp := b.open(b.t.Context(), method, path, body, header...)
	defer func() { _ = resp.Body.Close() }()
	octets, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(octets)}
}

func (b *bench) open(ctx context.Context, method, path, body string, header ...string) *http.Response {
	b.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, b.server.URL+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("A2A-Version", "1.0")
	r.Header.Set(callerHeader, "alice")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range header {
		name, value, ok := strings.Cut(h, ": ")
		if !ok {
			delete(r.Header, http.CanonicalHeaderKey(name))
			continue
		}
		if r.Header.Get(name) == "" || strings.EqualFold(name, callerHeader) || name == "A2A-Version" || name == "Content-Type" {
			r.Header.Set(name, value)
		} else {
			r.Header.Add(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp
}

// rpc sends a JSON-RPC request with the id 1.
func (b *bench) rpc(method, params string, header ...string) answer {
	b.t.Helper()
	return b.do(http.MethodPost, "/a2a/weather", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, header...)
}

// given returns the task that the agent was given.
func (b *bench) given() *a2a.Task {
	b.t.Helper()
	select {
	case task := <-b.asked:
		return task
	case <-time.After(patience):
		b.t.Fatal("the agent was asked nothing")
		return nil
	}
}

// untouched wants that nothing came to the agent.
func (b *bench) untouched(what string) {
	b.t.Helper()
	select {
	case task := <-b.asked:
		b.t.Errorf("%s: the agent was given %s %s", what, task.Kind, task.Input)
	default:
	}
}

// fixed is an agent that answers everything with the same octets.
func fixed(output string) agent {
	return func(context.Context, *a2a.Task, func(string, []byte) error) ([]byte, error) {
		return []byte(output), nil
	}
}
