package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/internal/fair/fairtest"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/store"
)

func TestConcurrentDuplicatesWaitForTheOneRun(t *testing.T) {
	for _, method := range []string{"test.slow", "test.held", "test.repeats"} {
		t.Run(method, func(t *testing.T) {
			c, gate, started := new(tally), make(chan struct{}), make(chan string)
			p := newProfile(t, rpc.Options{Methods: gated(c, gate, started), Outcomes: openStore(t, "", nil)})
			a, again := dial(t, "spiffe://test/a", p), dial(t, "spiffe://test/a", p)
			calls := []*pending{a.start(ask("first", method, "p", "key"))}
			<-started
			for i := range 10 {
				from := a
				if i%2 == 1 {
					from = again
				}
				calls = append(calls, from.start(ask(fmt.Sprint("dup", i), method, "p", "key")))
			}
			// A conflict does not wait, and neither does another principal.
			again.start(ask("other", method, "q", "key")).want("err other invalid_request")
			b := dial(t, "spiffe://test/b", p).start(ask("bb", method, "p", "key"))
			<-started
			close(gate)
			calls[0].want("resp first p #1")
			for i, call := range calls[1:] {
				call.want(fmt.Sprintf("resp dup%d p #1", i))
			}
			b.want("resp bb p #2")
			if n := c.of(method); n != 2 {
				t.Errorf("%d runs, want one for each principal", n)
			}
		})
	}
}

func TestRequestsThatWaitForOneCallAreBounded(t *testing.T) {
	c, gate, started := new(tally), make(chan struct{}), make(chan string)
	p := newProfile(t, rpc.Options{Methods: gated(c, gate, started), Outcomes: openStore(t, "", nil)})
	a := dial(t, "spiffe://test/a", p)
	first := a.start(ask("first", "test.slow", "p", "key"))
	<-started
	const most = 64
	var calls []*pending
	for i := range most - 1 {
		calls = append(calls, a.start(ask(fmt.Sprint("dup", i), "test.slow", "p", "key")))
	}
	a.start(ask("over", "test.slow", "p", "key")).want("err over unavailable retryable")
	// A place is free when somebody has left.
	a.cancel("dup0")
	calls[0].want("err dup0 cancelled")
	last := a.start(ask("last", "test.slow", "p", "key"))
	close(gate)
	first.want("resp first p #1")
	for i, call := range calls[1:] {
		call.want(fmt.Sprintf("resp dup%d p #1", i+1))
	}
	last.want("resp last p #1")
}

func TestACancelledCallStaysCancelled(t *testing.T) {
	for _, method := range []string{"test.slow", "test.held", "test.deaf"} {
		t.Run(method, func(t *testing.T) {
			c, gate, started := new(tally), make(chan struct{}), make(chan string, 1)
			defer close(gate)
			p := newProfile(t, rpc.Options{Methods: gated(c, gate, started), Outcomes: openStore(t, "", nil)})
			a, b := dial(t, "spiffe://test/a", p), dial(t, "spiffe://test/b", p)
			x := a.start(ask("aa", method, "p", "key"))
			<-started
			y := a.start(ask("bb", method, "p", "key"))
			z := a.start(ask("cc", method, "p", "key"))
			b.cancel("aa") // another principal's rpc_id is nobody's
			a.cancel("cc") // who only waits leaves alone
			z.want("err cc cancelled")
			a.cancel("aa")
			a.cancel("aa")
			x.want("err aa cancelled")
			y.want("err bb cancelled")
			a.start(ask("dd", method, "p", "key")).want("err dd cancelled")
			if n := c.of(method); n != 1 {
				t.Errorf("%d runs, want one", n)
			}
		})
	}
}

func TestACallUnderAKeyOutlivesItsConnection(t *testing.T) {
	for _, method := range []string{"test.slow", "test.held"} {
		t.Run(method, func(t *testing.T) {
			c, gate, started := new(tally), make(chan struct{}), make(chan string)
			p := newProfile(t, rpc.Options{Methods: gated(c, gate, started), Outcomes: openStore(t, "", nil)})
			a := dial(t, "spiffe://test/a", p)
			a.start(ask("aa", method, "p", "key"))
			<-started
			a.Close()
			a.Wait()
			again := dial(t, "spiffe://test/a", p)
			x := again.start(ask("bb", method, "p", "key"))
			gate <- struct{}{}
			x.want("resp bb p #1")
			again.start(ask("cc", method, "p", "key")).want("resp cc p #1")
		})
	}
	t.Run("but not a long one", func(t *testing.T) {
		c, gate, started := new(tally), make(chan struct{}), make(chan string)
		p := newProfile(t, rpc.Options{Methods: gated(c, gate, started), Outcomes: openStore(t, "", nil)})
		a := dial(t, "spiffe://test/a", p)
		a.start(ask("aa", "test.long", "p", "key"))
		<-started
		a.Close()
		a.Wait()
		dial(t, "spiffe://test/a", p).start(ask("bb", "test.long", "p", "key")).want("err bb cancelled")
	})
}

// A deadline ends the call, and whoever repeats it gets that end, although the
// method has not noticed.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, gate := new(tally), make(chan struct{})
		db := openStore(t, "", nil)
		p := newProfile(t, rpc.Options{Methods: gated(c, gate, nil), Outcomes: db, Handler: 3 * time.Second})
		a := dial(t, "spiffe://test/a", p)
		at := func(want time.Duration, call *pending, words ...string) {
			t.Helper()
			began := time.Now()
			call.want(words...)
			if took := time.Since(began); took != want {
				t.Errorf("%q after %v, want %v", words, took, want)
			}
		}
		for i, method := range []string{"test.slow", "test.held", "test.deaf", "test.long"} {
			key := fmt.Sprint("key", i)
			at(time.Second, a.start(ask("aa", method, "p", ""), within(1000)...), "err aa timeout retryable")
			at(time.Second, a.start(ask("aa", method, "p", key), within(1000)...), "err aa timeout")
			at(0, a.start(ask("bb", method, "p", key)), "err bb timeout")
			// No time at all: the method does not run, and nothing is kept.
			at(0, a.start(ask("aa", method, "p", ""), within(0)...), "err aa timeout retryable")
			at(0, a.start(ask("aa", method, "p", key+"0"), within(0)...), "err aa timeout retryable")
			if n := c.of(method); n != 2 {
				t.Errorf("%s ran %d times, want 2", method, n)
			}
		}
		// Who only waits leaves alone, and may ask again.
		x := a.start(ask("aa", "test.slow", "p", "long"))
		at(time.Second, a.start(ask("bb", "test.slow", "p", "long"), within(1000)...), "err bb timeout retryable")
		// A Detached method has a deadline under a key, too.
		at(2*time.Second, x, "err aa timeout")
		// One that is no number is refused: whoever sent it wants one.
		before := c.of("test.slow")
		for _, value := range []string{"", "\xff", "\x01\x01"} {
			at(0, a.start(ask("aa", "test.slow", "p", ""), e1.AppendExtension(nil, profiles.ExtDeadline, []byte(value))...), "err aa invalid_request")
		}
		// One beyond all bounds is none, and an inline call is not held up.
		z := a.start(ask("bb", "test.slow", "p", ""), within(1<<63)...)
		at(0, a.start(ask("cc", "swp.echo", "p", ""), within(1)...), "resp cc p")
		time.Sleep(time.Minute)
		close(gate)
		z.want(fmt.Sprintf("resp bb p #%d", before+1))
	})
}

// crash leaves a store as a process leaves it that ends while method runs under
// "key": its record is there, its outcome never comes.
func crash(t *testing.T, dir, method string, now func() time.Time) {
	t.Helper()
	gate, started := make(chan struct{}), make(chan string)
	db := openStore(t, dir, now)
	a := dial(t, "spiffe://test/a", newProfile(t, rpc.Options{Methods: gated(new(tally), gate, started), Outcomes: db, Now: now}))
	a.start(ask("aa", method, "p", "key"))
	<-started
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	close(gate) // what the method does now nobody hears
}

func TestACallThatWasCutOffByACrashIsResolvedByTheRule(t *testing.T) {
	const unknown = "outcome unknown: the endpoint stopped while the call ran"
	for _, method := range []string{"test.slow", "test.held", "test.repeats"} {
		t.Run(method, func(t *testing.T) {
			dir, now := t.TempDir(), newClock()
			crash(t, dir, method, now.now)
			c, gate := new(tally), make(chan struct{})
			close(gate)
			for restart := range 3 {
				db := openStore(t, dir, now.now)
				a := dial(t, "spiffe://test/a", newProfile(t, rpc.Options{Methods: gated(c, gate, nil), Outcomes: db, Now: now.now}))
				a.start(ask("bb", method, "q", "key")).want("err bb invalid_request")
				answers := a.start(ask("bb", method, "p", "key")).wait()
				if method == "test.repeats" {
					if got := spell(t, answers); got[0] != "resp bb p #1" {
						t.Errorf("restart %d: %q, want a repeatable method run again, once", restart, got)
					}
				} else {
					var m rpc.Err
					if err := m.Decode(answers[0].Payload); err != nil || string(m.ErrorCode) != rpc.CodeInternal || m.Retryable || string(m.ErrorMessage) != unknown {
						t.Errorf("restart %d: %q, want it told that the outcome is unknown", restart, spell(t, answers))
					}
				}
				_ = db.Close()
			}
			if n := c.of(method); n > 1 || n == 1 && method != "test.repeats" {
				t.Errorf("%d runs after the crash", n)
			}
		})
	}
	t.Run("until the window ends", func(t *testing.T) {
		dir, now := t.TempDir(), newClock()
		crash(t, dir, "test.slow", now.now)
		now.advance(25 * time.Hour)
		c, gate := new(tally), make(chan struct{})
		close(gate)
		a := dial(t, "spiffe://test/a", newProfile(t, rpc.Options{Methods: gated(c, gate, nil), Outcomes: openStore(t, dir, now.now), Now: now.now}))
		a.start(ask("bb", "test.slow", "p", "key")).want("resp bb p #1")
	})
}

// The end of Options.Context ends calls like a crash: their records stay.
func TestAnOrderlyStopLeavesCallsUnresolved(t *testing.T) {
	c, gate, started, dir := new(tally), make(chan struct{}), make(chan string), t.TempDir()
	base, stop := context.WithCancel(t.Context())
	db := openStore(t, dir, nil)
	a := dial(t, "spiffe://test/a", newProfile(t, rpc.Options{Methods: gated(c, gate, started), Outcomes: db, Context: base}))
	x := a.start(ask("aa", "test.slow", "p", "one"))
	<-started
	y := a.start(ask("bb", "test.repeats", "p", "two"))
	<-started
	stop()
	x.want("err aa internal")
	y.want("err bb internal")
	_ = db.Close()
	close(gate)
	a = dial(t, "spiffe://test/a", newProfile(t, rpc.Options{Methods: gated(c, gate, nil), Outcomes: openStore(t, dir, nil)}))
	a.start(ask("aa", "test.slow", "p", "one")).want("err aa internal")
	a.start(ask("bb", "test.repeats", "p", "two")).want("resp bb p #2")
}

func TestAStoreThatFails(t *testing.T) {
	for _, test := range []struct {
		name          string
		method        string
		before, after map[int]error
		steps         []string // what one request after the other is answered
		runs          int64
	}{
		{"the record is not taken", "test.inline", map[int]error{1: store.ErrUnavailable}, nil,
			[]string{"err ID unavailable retryable", "resp ID p #1", "resp ID p #1"}, 1},
		{"the queue is full", "test.inline", map[int]error{1: store.ErrBusy}, nil,
			[]string{"err ID unavailable retryable", "resp ID p #1"}, 1},
		{"the quota is used up", "test.inline", map[int]error{1: store.ErrQuota, 2: store.ErrQuota}, nil,
			[]string{"err ID unavailable retryable", "err ID unavailable retryable", "resp ID p #1"}, 1},
		{"the record is damaged", "test.inline", map[int]error{1: store.ErrDamaged}, nil,
			[]string{"err ID internal", "resp ID p #1"}, 1},
		{"the store is closed", "test.inline", map[int]error{1: store.ErrClosed}, nil,
			[]string{"err ID unavailable retryable", "resp ID p #1"}, 1},
		// What was committed all the same is a record of a call that never ran.
		{"the answer to the record is lost", "test.inline", nil, map[int]error{1: store.ErrUnavailable},
			[]string{"err ID unavailable retryable", "err ID internal", "err ID internal"}, 0},
		{"the answer to the record is lost, repeatable", "test.again", nil, map[int]error{1: store.ErrUnavailable},
			[]string{"err ID unavailable retryable", "resp ID p #1", "resp ID p #1"}, 1},
		{"the outcome is not taken", "test.inline", map[int]error{2: store.ErrUnavailable, 3: store.ErrQuota}, nil,
			[]string{"err ID unavailable retryable", "err ID unavailable retryable", "resp ID p #1", "resp ID p #1"}, 1},
		{"the answer to the outcome is lost", "test.inline", nil, map[int]error{2: store.ErrUnavailable},
			[]string{"err ID unavailable retryable", "resp ID p #1", "resp ID p #1"}, 1},
		{"the outcome is too large", "test.inline", map[int]error{2: store.ErrTooLarge}, nil,
			[]string{"err ID internal", "err ID internal"}, 1},
		{"the outcome is too large, and its substitute is not taken", "test.inline", map[int]error{2: store.ErrTooLarge, 3: store.ErrUnavailable}, nil,
			[]string{"err ID unavailable retryable", "err ID internal", "err ID internal"}, 1},
		{"the failure is not taken", "test.fails", map[int]error{2: store.ErrUnavailable}, nil,
			[]string{"err ID unavailable retryable", "err ID test.code", "err ID test.code"}, 1},
		{"the record is not removed", "test.later", map[int]error{2: store.ErrUnavailable}, nil,
			[]string{"err ID unavailable retryable", "err ID unavailable retryable", "err ID unavailable retryable", "resp ID now"}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := new(tally)
			f := &faulty{Outcomes: openStore(t, "", nil), before: test.before, after: test.after}
			a := dial(t, "spiffe://test/a", newProfile(t, rpc.Options{Methods: counted(c), Outcomes: f}))
			for i, want := range test.steps {
				id := fmt.Sprint("id", i)
				a.start(ask(id, test.method, "p", "key")).want(named(id, []string{want})...)
			}
			if n := c.of(test.method); n != test.runs {
				t.Errorf("%d runs, want %d", n, test.runs)
			}
		})
	}
}

// An outcome that could not be committed is as soon as the store takes anything.
func TestWhatTheStoreDidNotTakeIsTriedAgain(t *testing.T) {
	c, dir := new(tally), t.TempDir()
	db := openStore(t, dir, nil)
	f := &faulty{Outcomes: db, before: map[int]error{2: store.ErrUnavailable}}
	a := dial(t, "spiffe://test/a", newProfile(t, rpc.Options{Methods: counted(c), Outcomes: f}))
	a.start(ask("aa", "test.inline", "p", "one")).want("err aa unavailable retryable")
	a.start(ask("aa", "test.inline", "p", "two")).want("resp aa p #2")
	a.start(ask("aa", "test.inline", "p", "three")).want("resp aa p #3")
	_ = db.Close()
	a = dial(t, "spiffe://test/a", newProfile(t, rpc.Options{Methods: counted(c), Outcomes: openStore(t, dir, nil)}))
	a.start(ask("aa", "test.inline", "p", "one")).want("resp aa p #1")
}

// Nobody is told an outcome before it is committed.
func TestTheOutcomeIsCommittedBeforeItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &held{Outcomes: openStore(t, "", nil), queue: make(chan func(), 10)}
		c := new(tally)
		a := dial(t, "spiffe://test/a", newProfile(t, rpc.Options{Methods: counted(c), Outcomes: g}))
		x := a.start(ask("aa", "test.detached", "p", "key"))
		synctest.Wait()
		if n := c.of("test.detached"); n != 0 {
			t.Errorf("the method ran before its record was committed")
		}
		(<-g.queue)()
		synctest.Wait()
		if n := c.of("test.detached"); n != 1 || len(g.queue) != 1 {
			t.Errorf("%d runs, %d commits asked for, want one each", n, len(g.queue))
		}
		if env, err := x.call.Recv(t.Context()); err != nil || env.MsgType != rpc.TypeStreamItem {
			t.Errorf("first %v, %v, want the item", env, err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Hour)
		if env, err := x.call.Recv(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v, want nothing before the commit", env, err)
		}
		cancel()
		y := a.start(ask("bb", "test.detached", "p", "key"))
		synctest.Wait() // it waits with the first
		(<-g.queue)()
		x.want("resp aa p #1")
		y.want("resp bb p #1")
	})
}

// held is a store that carries nothing out before it is told to.
type held struct {
	rpc.Outcomes
	queue chan func()
}

func (h *held) Put(space, key string, was uint64, owner string, value []byte, expires time.Time, done func(store.PutResult)) {
	h.queue <- func() { h.Outcomes.Put(space, key, was, owner, value, expires, done) }
}

func TestLargeResultsAreKept(t *testing.T) {
	effort.Unwatched(t)
	big := bytes.Repeat([]byte("x"), 4<<20)
	c := new(tally)
	methods := counted(c)
	methods["test.big"] = rpc.Method{Inline: func(*profiles.Request, []byte) ([]byte, error) {
		c.add("test.big")
		return big, nil
	}}
	a := dial(t, "spiffe://test/a", newProfile(t, rpc.Options{Methods: methods, Outcomes: openStore(t, "", nil)}))
	for range 3 {
		var m rpc.Resp
		if err := m.Decode(a.start(ask("aa", "test.big", string(big), "key")).wait()[0].Payload); err != nil || !bytes.Equal(m.Result, big) {
			t.Errorf("a result of %d octets, %v", len(m.Result), err)
		}
	}
	if n := c.of("test.big"); n != 1 {
		t.Errorf("%d runs", n)
	}
}

func TestCallsUnderKeysAreBounded(t *testing.T) {
	effort.Unwatched(t)
	c, gate, started := new(tally), make(chan struct{}), make(chan string)
	p := newProfile(t, rpc.Options{Methods: gated(c, gate, started), Outcomes: openStore(t, "", nil)})
	// 64 MiB of params, whoever sends them.
	params := strings.Repeat("x", 16<<20)
	var calls []*pending
	for i := range 4 {
		calls = append(calls, dial(t, fmt.Sprint("spiffe://test/", i), p).start(ask("aa", "test.slow", params, "key")))
		<-started
	}
	a := dial(t, "spiffe://test/a", p)
	a.start(ask("aa", "test.slow", "x", "key")).want("err aa unavailable retryable")
	empty := a.start(ask("aa", "test.slow", "", "key"))
	<-started
	close(gate)
	for _, call := range append(calls, empty) {
		call.wait()
	}
	next := a.start(ask("aa", "test.slow", "x", "another"))
	<-started
	next.want("resp aa x #6")
}

func TestFairnessOfCallsUnderKeys(t *testing.T) {
	effort.Unwatched(t)
	params := strings.Repeat("x", 4<<20)
	running := func(flooded bool) int {
		started, gates := make(chan string), sync.Map{}
		held := func(p *rpc.Pending, in []byte) error {
			key, _, _ := strings.Cut(string(in[:20]), " ")
			go func() {
				started <- key
				gate, _ := gates.Load(key)
				<-gate.(chan struct{})
				_ = p.Return(nil)
			}()
			return nil
		}
		p := newProfile(t, rpc.Options{Methods: map[string]rpc.Method{"test.held": {Held: held}}, Outcomes: openStore(t, "", nil)})
		peers := map[string]*peer{fairtest.Alice: dial(t, fairtest.Alice, p), fairtest.Mallory: dial(t, fairtest.Mallory, p)}
		type call struct {
			key    string
			answer chan []string
		}
		calls, n := map[string][]call{}, 0
		take := func(who string) bool {
			n++
			one := call{fmt.Sprint(n), make(chan []string, 1)}
			gates.Store(one.key, make(chan struct{}))
			pending := peers[who].start(ask(one.key, "test.held", one.key+" "+params, one.key))
			go func() { one.answer <- spell(t, pending.wait()) }()
			select {
			case <-started:
				calls[who] = append(calls[who], one)
				return true
			case answer := <-one.answer:
				if want := "err " + one.key + " unavailable retryable"; fmt.Sprint(answer) != "["+want+"]" {
					t.Errorf("%s: %q, want %s", who, answer, want)
				}
				return false
			}
		}
		end := func(who string) {
			gate, _ := gates.Load(calls[who][0].key)
			close(gate.(chan struct{}))
			<-calls[who][0].answer
			calls[who] = calls[who][1:]
		}
		for range 16 {
			for flooded && take(fairtest.Mallory) {
			}
			for take(fairtest.Alice) {
			}
			if len(calls[fairtest.Mallory]) > len(calls[fairtest.Alice]) {
				end(fairtest.Mallory)
			}
		}
		has := len(calls[fairtest.Alice])
		for who := range calls {
			for len(calls[who]) > 0 {
				end(who)
			}
		}
		return has
	}
	fairtest.Row(t, "rpc: octets of calls under keys", "calls of 15", running(false), running(true))
}

func TestAccessIsAskedForEachCall(t *testing.T) {
	asked := &rules{allowed: map[string]bool{"spiffe://test/a rpc call swp.ping": true, "spiffe://test/a rpc call test.inline": true}}
	c := new(tally)
	p := newProfile(t, rpc.Options{Methods: counted(c), Outcomes: openStore(t, "", nil), Access: asked})
	a, b := dial(t, "spiffe://test/a", p), dial(t, "spiffe://test/b", p)
	a.start(ask("aa", "swp.ping", "", "")).want("resp aa ")
	a.start(ask("aa", "test.inline", "p", "key")).want("resp aa p #1")
	for _, key := range []string{"", "key", strings.Repeat("k", 257)} {
		a.start(ask("aa", "swp.echo", "p", key)).want("err aa unauthorized")
		b.start(ask("bb", "test.inline", "p", key)).want("err bb unauthorized")
		b.start(ask("bb", "test.detached", "p", key)).want("err bb unauthorized")
		// Whether there is such a method is not told either.
		b.start(ask("bb", "nobody.knows", "p", key)).want("err bb unauthorized")
	}
	// An outcome is not told to whom the method is denied now.
	asked.set("spiffe://test/a rpc call test.inline", false)
	a.start(ask("aa", "test.inline", "p", "key")).want("err aa unauthorized")
	if n := c.of("test.inline"); n != 1 {
		t.Errorf("%d runs", n)
	}
}

type rules struct {
	mu      sync.Mutex
	allowed map[string]bool
}

func (r *rules) set(rule string, to bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.allowed[rule] = to
}

func (r *rules) Allowed(identity, profile, operation, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.allowed[strings.Join([]string{identity, profile, operation, name}, " ")]
}
