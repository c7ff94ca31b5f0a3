package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/profiletest"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/store"
	"github.com/slimwire/swp/store/sqlstore"
)

// clock is a wall clock that stands still until it is moved.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.ms.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) now() time.Time           { return time.UnixMilli(c.ms.Load()) }
func (c *clock) advance(by time.Duration) { c.ms.Add(by.Milliseconds()) }

// openStore opens a store in a directory, or in memory, until the test ends.
func openStore(t testing.TB, dir string, now func() time.Time) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(context.Background(), sqlstore.Options{Dir: dir, Durability: store.Process, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// faulty is a store that fails when it is told to.
type faulty struct {
	rpc.Outcomes
	mu     sync.Mutex
	before map[int]error // by the number of the operation, from 1: not carried out
	after  map[int]error // carried out, and reported as failed
	n      int
}

func (f *faulty) next() (before, after error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	return f.before[f.n], f.after[f.n]
}

func (f *faulty) Put(space, key string, was uint64, owner string, value []byte, expires time.Time, done func(store.PutResult)) {
	before, after := f.next()
	switch {
	case before != nil:
		go done(store.PutResult{Err: before})
	case after != nil:
		f.Outcomes.Put(space, key, was, owner, value, expires, func(store.PutResult) { done(store.PutResult{Err: after}) })
	default:
		f.Outcomes.Put(space, key, was, owner, value, expires, done)
	}
}

func (f *faulty) Delete(space, key string, was uint64, done func(bool, error)) {
	if before, after := f.next(); before != nil || after != nil {
		go done(false, errors.Join(before, after))
		return
	}
	f.Outcomes.Delete(space, key, was, done)
}

// peer is a caller of a service under some identity.
type peer struct {
	t testing.TB
	*profiletest.Session
}

func dial(t testing.TB, identity string, served *profiles.Profile) *peer {
	t.Helper()
	registry := func(p *profiles.Profile) *profiles.Registry {
		r, err := profiles.NewRegistry(p)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b := profiletest.Pair(identity, registry(newProfile(t, rpc.Options{})), "spiffe://test/server", registry(served), profiletest.SessionOptions{})
	t.Cleanup(func() {
		a.Close()
		a.Wait()
		b.Wait()
	})
	return &peer{t, a}
}

// pending is a call whose answers have not come.
type pending struct {
	t    testing.TB
	call profiles.Call
}

func (p *peer) start(in rpc.Req, ext ...byte) *pending {
	p.t.Helper()
	call, err := p.Call(context.Background(), e1.Envelope{ProfileID: rpc.ProfileID, MsgType: rpc.TypeReq, Payload: in.Append(nil), Extensions: ext})
	if err != nil {
		p.t.Fatal(err)
	}
	return &pending{p.t, call}
}

// wait returns all answers, the terminal one last.
func (p *pending) wait() []e1.Envelope {
	p.t.Helper()
	defer p.call.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var all []e1.Envelope
	for {
		env, err := p.call.Recv(ctx)
		if err != nil {
			p.t.Fatalf("after %d answers: %v", len(all), err)
		}
		all = append(all, env.Clone())
		if env.MsgType != rpc.TypeStreamItem {
			return all
		}
	}
}

// want wants the answers of a call, as spell writes them.
func (p *pending) want(words ...string) {
	p.t.Helper()
	if got := spell(p.t, p.wait()); strings.Join(got, "|") != strings.Join(words, "|") {
		p.t.Errorf("answers %q, want %q", got, words)
	}
}

func (p *peer) cancel(id string) {
	p.t.Helper()
	if err := p.Send(context.Background(), e1.Envelope{ProfileID: rpc.ProfileID, MsgType: rpc.TypeCancel, Payload: cancel(id)}); err != nil {
		p.t.Fatal(err)
	}
}

func ask(id, method, params, key string) rpc.Req {
	return rpc.Req{RPCID: []byte(id), Method: []byte(method), Params: []byte(params), IdempotencyKey: []byte(key)}
}

func within(ms uint64) []byte { return e1.AppendExtensionUvarint(nil, profiles.ExtDeadline, ms) }

// tally counts how often each method ran.
type tally struct{ runs sync.Map }

func (c *tally) add(name string) int64 {
	n, _ := c.runs.LoadOrStore(name, new(atomic.Int64))
	return n.(*atomic.Int64).Add(1)
}

func (c *tally) of(name string) int64 {
	n, _ := c.runs.LoadOrStore(name, new(atomic.Int64))
	return n.(*atomic.Int64).Load()
}

// counted are methods of each kind that say how often they ran.
func counted(c *tally) map[string]rpc.Method {
	result := func(name string, params []byte) []byte { return fmt.Appendf(nil, "%s #%d", params, c.add(name)) }
	return map[string]rpc.Method{
		"test.inline": {Inline: func(_ *profiles.Request, params []byte) ([]byte, error) { return result("test.inline", params), nil }},
		"test.detached": {Detached: func(_ context.Context, _ *profiles.Request, params []byte, send func([]byte) error) ([]byte, error) {
			return result("test.detached", params), send([]byte("item"))
		}},
		"test.held": {Held: func(p *rpc.Pending, params []byte) error {
			r := result("test.held", params)
			go func() {
				_ = p.Item([]byte("item"))
				_ = p.Return(r)
			}()
			return nil
		}},
		"test.fails": {Inline: func(*profiles.Request, []byte) ([]byte, error) {
			return nil, &rpc.Error{Code: "test.code", Message: fmt.Sprint("failure ", c.add("test.fails"))}
		}},
		"test.broken": {Inline: func(*profiles.Request, []byte) ([]byte, error) {
			c.add("test.broken")
			return nil, errors.New("secret")
		}},
		"test.panics": {Held: func(*rpc.Pending, []byte) error {
			c.add("test.panics")
			panic("at the disco")
		}},
		"test.again": {Repeatable: true, Inline: func(_ *profiles.Request, params []byte) ([]byte, error) {
			return result("test.again", params), nil
		}},
		"test.later": {Detached: func(context.Context, *profiles.Request, []byte, func([]byte) error) ([]byte, error) {
			if n := c.add("test.later"); n < 3 {
				return nil, &rpc.Error{Code: rpc.CodeUnavailable, Message: "not yet", Retryable: true}
			}
			return []byte("now"), nil
		}},
	}
}

// kinds are the methods of counted with the answers to their first run.
var kinds = []struct {
	method string
	first  []string
}{
	{"test.inline", []string{"resp ID p #1"}},
	{"test.detached", []string{"item ID 1 item", "resp ID p #1"}},
	{"test.held", []string{"item ID 1 item", "resp ID p #1"}},
	{"test.again", []string{"resp ID p #1"}},
	{"test.fails", []string{"err ID test.code"}},
	{"test.broken", []string{"err ID internal"}},
	{"test.panics", []string{"err ID internal"}},
}

func named(id string, words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = strings.ReplaceAll(w, "ID", id)
	}
	return out
}

func TestPR01ARepeatedKeyIsAnsweredFromTheRecord(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.method, func(t *testing.T) {
			c, now, dir := new(tally), newClock(), t.TempDir()
			db := openStore(t, dir, now.now)
			p := newProfile(t, rpc.Options{Methods: counted(c), Outcomes: db, Now: now.now})
			a := dial(t, "spiffe://test/a", p)
			first := a.start(ask("aa", kind.method, "p", "key")).wait()
			if got := spell(t, first); strings.Join(got, "|") != strings.Join(named("aa", kind.first), "|") {
				t.Fatalf("answers %q, want %q", got, kind.first)
			}
			terminal := first[len(first)-1].Payload
			again := func(when string, p *peer) {
				t.Helper()
				got := p.start(ask("aa", kind.method, "p", "key")).wait()
				if len(got) != 1 || !bytes.Equal(got[0].Payload, terminal) {
					t.Errorf("%s: %q, want the terminal answer %q alone", when, spell(t, got), terminal)
				}
			}
			again("at once", a)
			again("on another connection", dial(t, "spiffe://test/a", p))
			// Under an rpc_id of its own.
			a.start(ask("bb", kind.method, "p", "key")).want(named("bb", kind.first[len(kind.first)-1:])...)
			now.advance(time.Hour)
			again("after an hour", a)

			_ = db.Close()
			db = openStore(t, dir, now.now)
			p = newProfile(t, rpc.Options{Methods: counted(c), Outcomes: db, Now: now.now})
			a = dial(t, "spiffe://test/a", p)
			again("after a restart", a)

			const conflict = "err cc invalid_request"
			a.start(ask("cc", kind.method, "other", "key")).want(conflict)
			a.start(ask("cc", kind.method, "", "key")).want(conflict)
			a.start(ask("cc", "swp.echo", "p", "key")).want(conflict)
			if n := c.of(kind.method); n != 1 {
				t.Errorf("the method ran %d times, want once", n)
			}
			// The key of another principal is another key, and so is another key.
			dial(t, "spiffe://test/b", p).start(ask("dd", kind.method, "p", "key")).wait()
			a.start(ask("ee", kind.method, "p", "yek")).wait()
			if n := c.of(kind.method); n != 3 {
				t.Errorf("the method ran %d times, want 3", n)
			}
			again("in the end", a)
		})
	}
}

func TestTheReplayWindowEnds(t *testing.T) {
	const window = time.Minute
	c, now := new(tally), newClock()
	a := dial(t, "spiffe://test/a", newProfile(t, rpc.Options{
		Methods: counted(c), Outcomes: openStore(t, "", now.now), ReplayWindow: window, Now: now.now,
	}))
	a.start(ask("aa", "test.inline", "p", "key")).want("resp aa p #1")
	now.advance(window - time.Millisecond)
	a.start(ask("aa", "test.inline", "p", "key")).want("resp aa p #1")
	now.advance(time.Millisecond)
	a.start(ask("aa", "test.inline", "q", "key")).want("resp aa q #2")
	a.start(ask("aa", "test.inline", "p", "key")).want("err aa invalid_request")
}

func TestTheReplayWindowChangesForLaterCalls(t *testing.T) {
	c, now, window := new(tally), newClock(), time.Duration(0)
	a := dial(t, "spiffe://test/a", newProfile(t, rpc.Options{
		Methods: counted(c), Outcomes: openStore(t, "", now.now), ReplayWindow: time.Minute, Now: now.now,
		Times: func() (_, _ time.Duration) { return window, 0 },
	}))
	a.start(ask("aa", "test.inline", "p", "old")).want("resp aa p #1")
	window = time.Hour
	a.start(ask("aa", "test.inline", "p", "new")).want("resp aa p #2")
	now.advance(time.Minute)
	a.start(ask("aa", "test.inline", "p", "old")).want("resp aa p #3")
	a.start(ask("aa", "test.inline", "p", "new")).want("resp aa p #2")
}

func TestACallMayTakeLongerThanTheReplayWindow(t *testing.T) {
	c, now, gate := new(tally), newClock(), make(chan struct{})
	a := dial(t, "spiffe://test/a", newProfile(t, rpc.Options{
		Methods: gated(c, gate, nil), Outcomes: openStore(t, "", now.now), ReplayWindow: time.Minute, Now: now.now,
	}))
	x := a.start(ask("aa", "test.slow", "p", "key"))
	now.advance(time.Hour)
	y := a.start(ask("bb", "test.slow", "p", "key"))
	gate <- struct{}{}
	x.want("resp aa p #1")
	y.want("resp bb p #1")
	a.start(ask("cc", "test.slow", "p", "key")).want("resp cc p #1")
}

func TestRetryableErrorsAreNotKept(t *testing.T) {
	c := new(tally)
	a := dial(t, "spiffe://test/a", newProfile(t, rpc.Options{Methods: counted(c), Outcomes: openStore(t, "", nil)}))
	a.start(ask("aa", "test.later", "p", "key")).want("err aa unavailable retryable")
	a.start(ask("aa", "test.later", "other", "key")).want("err aa unavailable retryable") // the key was not used
	a.start(ask("aa", "test.later", "p", "key")).want("resp aa now")
	a.start(ask("aa", "test.later", "p", "key")).want("resp aa now")
	a.start(ask("aa", "test.later", "other", "key")).want("err aa invalid_request")
}

func TestAKeptErrorSaysWhichEndpointRefused(t *testing.T) {
	db := openStore(t, "", nil)
	for range 2 { // the second service has what the first one kept
		a := dial(t, "spiffe://test/a", newProfile(t, rpc.Options{Outcomes: db, Methods: map[string]rpc.Method{
			"test.refused": {Inline: func(*profiles.Request, []byte) ([]byte, error) {
				return nil, &rpc.Error{Code: rpc.CodeUnauthorized, Message: "no", Endpoint: "spiffe://partner/swpd"}
			}},
		}}))
		answers := a.start(ask("aa", "test.refused", "p", "key")).wait()
		if by, _ := answers[0].Extensions.Lookup(profiles.ExtEndpoint); string(by) != "spiffe://partner/swpd" {
			t.Errorf("refused by %q", by)
		}
	}
}

func TestKeysHaveALimit(t *testing.T) {
	c := new(tally)
	a := dial(t, "spiffe://test/a", newProfile(t, rpc.Options{Methods: counted(c), Outcomes: openStore(t, "", nil)}))
	a.start(ask("aa", "test.inline", "p", strings.Repeat("k", 256))).want("resp aa p #1")
	a.start(ask("aa", "test.inline", "p", strings.Repeat("k", 256))).want("resp aa p #1")
	a.start(ask("aa", "test.inline", "p", strings.Repeat("k", 257))).want("err aa invalid_request")
	// Octets that mean something elsewhere mean nothing here.
	for i, key := range []string{"a/b", "../../k", "k\x00", "k\x00\x00", "*", "'; --", "é"} {
		a.start(ask("aa", "test.inline", "p", key)).want(fmt.Sprintf("resp aa p #%d", i+2))
	}
}

func TestAnswersAboutTheMomentAreGivenAnew(t *testing.T) {
	f := &faulty{Outcomes: openStore(t, "", nil)}
	a := dial(t, "spiffe://test/a", newProfile(t, rpc.Options{Outcomes: f}))
	a.start(ask("aa", "swp.ping", "p", "key")).want("resp aa ")
	a.start(ask("aa", "swp.ping", "q", "key")).want("resp aa ")
	a.start(ask("aa", "swp.sync", "", "key")).want("resp aa ")
	a.start(ask("aa", "nobody.knows", "", "key")).want("err aa unknown_method")
	a.start(ask("aa", "swp.echo", "hello", "")).want("resp aa hello")
	if f.n != 0 {
		t.Errorf("%d operations of the store, want none", f.n)
	}
}

// gated are methods that wait for gate, or the end of their context. started, if
// not nil, hears of each run.
func gated(c *tally, gate chan struct{}, started chan<- string) map[string]rpc.Method {
	run := func(ctx context.Context, name string, params []byte) ([]byte, error) {
		n := c.add(name)
		if started != nil {
			started <- name
		}
		select {
		case <-gate:
			return fmt.Appendf(nil, "%s #%d", params, n), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	held := func(name string) func(*rpc.Pending, []byte) error {
		return func(p *rpc.Pending, params []byte) error {
			params = bytes.Clone(params)
			go func() {
				if result, err := run(p.Context(), name, params); err != nil {
					p.Fail(err)
				} else {
					_ = p.Return(result)
				}
			}()
			return nil
		}
	}
	detached := func(name string) func(context.Context, *profiles.Request, []byte, func([]byte) error) ([]byte, error) {
		return func(ctx context.Context, _ *profiles.Request, params []byte, _ func([]byte) error) ([]byte, error) {
			return run(ctx, name, params)
		}
	}
	return map[string]rpc.Method{
		"test.slow":    {Detached: detached("test.slow")},
		"test.held":    {Held: held("test.held")},
		"test.long":    {Held: held("test.long"), Long: true},
		"test.repeats": {Detached: detached("test.repeats"), Repeatable: true},
		"test.deaf": {Detached: func(_ context.Context, _ *profiles.Request, params []byte, _ func([]byte) error) ([]byte, error) {
			return run(context.Background(), "test.deaf", params)
		}},
	}
}

func TestContractUnderKeys(t *testing.T) {
	fresh := func(t testing.TB) *profiles.Profile {
		return newProfile(t, rpc.Options{Methods: methods(nil), Info: info, Outcomes: openStore(t, "", nil)})
	}
	keyed := func(method, params string) []byte {
		in := ask("id", method, params, "key")
		return in.Append(nil)
	}
	profiletest.Run(t, fresh,
		profiletest.Case{Name: "echo", Type: rpc.TypeReq, Payload: keyed("swp.echo", "params"), Answers: []uint64{rpc.TypeResp}},
		profiletest.Case{Name: "detached with items", Type: rpc.TypeReq, Payload: keyed("test.count", "ab"), Answers: []uint64{rpc.TypeStreamItem, rpc.TypeStreamItem, rpc.TypeResp}},
		profiletest.Case{Name: "held", Type: rpc.TypeReq, Payload: keyed("test.held", "kept"), Answers: []uint64{rpc.TypeStreamItem, rpc.TypeResp}},
		profiletest.Case{Name: "failure", Type: rpc.TypeReq, Payload: keyed("test.busy", ""), Answers: []uint64{rpc.TypeErr}},
		profiletest.Case{Name: "cancel of nothing", Type: rpc.TypeCancel, Payload: cancel("id")},
	)
}
