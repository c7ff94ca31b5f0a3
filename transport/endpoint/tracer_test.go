package endpoint_test

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/endpoint"
)

// tracing is a Tracer that keeps what it is told: "begin id", then "end id
// code".
type tracing struct {
	mu    sync.Mutex
	lines []string
}

type tracedKey struct{}

func (tr *tracing) Begin(ctx context.Context, p *profiles.Profile, req *profiles.Request) (context.Context, func(endpoint.Verdict)) {
	id := p.Name + " " + string(req.MsgID)
	tr.note("begin " + id)
	return context.WithValue(ctx, tracedKey{}, string(req.MsgID)), func(v endpoint.Verdict) {
		tr.note("end " + id + " " + v.Code.Alias() + " " + v.Detail)
	}
}

func (tr *tracing) note(line string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lines = append(tr.lines, strings.TrimSpace(line))
}

// of returns the lines about a message of the profile under test.
func (tr *tracing) of(id string) []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var lines []string
	for _, line := range tr.lines {
		if strings.Contains(line, "test "+id) {
			lines = append(lines, strings.Replace(line, "test "+id, "", 1))
		}
	}
	return lines
}

// traced checks in a handler that it has the context of its message.
func traced(t *testing.T, id []byte, contexts ...context.Context) {
	t.Helper()
	for i, ctx := range contexts {
		if got := ctx.Value(tracedKey{}); got != string(id) {
			t.Errorf("context %d of %q is that of %v", i, id, got)
		}
	}
}

func TestTracerFollowsEachExchangeFromItsHandlerToItsVerdict(t *testing.T) {
	no := profiles.Errorf(profiles.NotFound, "no")
	handlers := map[string]struct {
		serve profiles.HandlerFunc
		want  string // how it ends
	}{
		"inline": {func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
			traced(t, req.MsgID, ctx, w.Context())
			return echo(ctx, req, w)
		}, "OK"},
		"without an answer": {func(context.Context, *profiles.Request, profiles.Responder) error { return nil }, "OK"},
		"refused":           {func(context.Context, *profiles.Request, profiles.Responder) error { return no }, "NOT_FOUND"},
		"panic":             {func(context.Context, *profiles.Request, profiles.Responder) error { panic("boom") }, "INTERNAL_ERROR"},
		"detached": {func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			return req.Detach(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
				traced(t, req.MsgID, ctx, w.Context())
				return w.Finish(e1.Envelope{MsgType: typeAnswer})
			})
		}, "OK"},
		"detached and refused": {func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			return req.Detach(func(context.Context, *profiles.Request, profiles.Responder) error { return no })
		}, "NOT_FOUND"},
		"detached for too long": {func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			return req.Detach(func(ctx context.Context, _ *profiles.Request, w profiles.Responder) error {
				<-ctx.Done()
				time.Sleep(time.Second) // or either may be first
				return w.Finish(e1.Envelope{MsgType: typeAnswer})
			})
		}, "INTERNAL_ERROR deadline"},
		"held": {func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			req, w, err := req.Hold()
			if err != nil {
				return err
			}
			traced(t, req.MsgID, w.Context())
			go func() {
				_ = w.Finish(e1.Envelope{MsgType: typeAnswer})
				w.Fail(no)
			}()
			return nil
		}, "OK"},
		"held and failed": {func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			_, w, err := req.HoldLong()
			if err != nil {
				return err
			}
			go func() { w.Fail(no) }()
			return nil
		}, "NOT_FOUND"},
		"held and failed by Serve": {func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			_, w, err := req.Hold()
			if err != nil {
				return err
			}
			context.AfterFunc(w.Context(), func() { w.Fail(nil) })
			return no
		}, "NOT_FOUND"},
		"deferred": {func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			done := req.Defer()
			go func() { done(nil); done(no) }()
			return nil
		}, "OK"},
		"deferred and refused": {func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			done := req.Defer()
			go func() { done(no) }()
			return nil
		}, "NOT_FOUND"},
	}
	for name, h := range handlers {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, pipe pipe) {
				tr := new(tracing)
				r := newRigOn(t, pipe, endpoint.Options{Tracer: tr}, telling(profile(h.serve)))
				const id, other = "0123456789abcdef", "fedcba9876543210"
				r.send(t, request(id, "x"))
				time.Sleep(time.Minute)
				want := []string{"begin ", "end  " + h.want}
				if got := tr.of(id); !slices.Equal(got, want) {
					t.Fatalf("%q, want %q", got, want)
				}
				// What is refused unread afterwards is nobody's end.
				r.write(t, framed(request(other, "x"))[:20])
				r.finish(t)
				r.wantVerdict(t, 2, profiles.InvalidFrame, "", r.severed())
				if got := tr.of(id); !slices.Equal(got, want) {
					t.Errorf("%q after a torn frame, want %q", got, want)
				}
				if got := tr.of(other); got != nil {
					t.Errorf("%q of a torn frame", got)
				}
			})
		})
	}
}

func TestTracerIsNotToldOfWhatNoHandlerGets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := new(tracing)
		r := newRig(t, endpoint.Options{Tracer: tr}, telling(profile(slowEcho(nil))))
		answer := request("0123456789answer", "x")
		answer.MsgType = typeAnswer
		r.send(t, answer)
		r.wantVerdict(t, 1, profiles.OK, "unsolicited", endpoint.Kept)
		unknown := request("01234567-unknown", "x")
		unknown.MsgType = 99
		r.send(t, unknown)
		r.wantVerdict(t, 2, profiles.UnsupportedMsgType, "", endpoint.Kept)
		r.send(t, request("0123456789abcdef", "x"))
		r.send(t, request("0123456789abcdef", "again"))
		r.wantVerdict(t, 3, profiles.DuplicateMsgID, "", endpoint.Kept)
		_ = r.conn.Close(0)
		r.wantVerdict(t, 4, profiles.OK, "gone", endpoint.Kept)
		synctest.Wait() // the Tracer is told after the verdict
		want := []string{"begin ", "end  OK gone"}
		if got := tr.of("0123456789abcdef"); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if got := slices.Concat(tr.of("0123456789answer"), tr.of("01234567-unknown")); got != nil {
			t.Errorf("%q of what no handler got", got)
		}
	})
}

// blind is a Tracer that wants to know nothing.
type blind struct{}

func (blind) Begin(ctx context.Context, _ *profiles.Profile, _ *profiles.Request) (context.Context, func(endpoint.Verdict)) {
	return ctx, nil
}

func TestATracerThatWantsNothingAllocatesNothing(t *testing.T) {
	reg, err := profiles.NewRegistry(profile(echo))
	if err != nil {
		t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: reg, Tracer: blind{}})
	if err != nil {
		t.Fatal(err)
	}
	conn := newTreadmill()
	ep.Attach(conn)
	defer func() { _ = ep.Close() }()
	batch := bytes.Repeat(framed(request("0123456789abcdef", "x")), 256)
	conn.run(batch)
	if allocs := testing.AllocsPerRun(100, func() { conn.run(batch) }); allocs >= 1 && !effort.Watched {
		t.Errorf("%.0f allocations for 256 messages, want none", allocs)
	}
}

// Whoever waits for the end of a stream's context, or of one made from it,
// needs no goroutine for that.
func TestTheContextOfAStreamIsWatchedWithoutAGoroutine(t *testing.T) {
	overWire(t, func(t *testing.T, kind string) {
		const watchers = 1000
		started, ended := make(chan int), make(chan struct{}, watchers)
		h := func(ctx context.Context, req *profiles.Request, _ profiles.Responder) error {
			_, w, err := req.HoldLong()
			if err != nil {
				return err
			}
			before := runtime.NumGoroutine()
			for range watchers {
				child, cancel := context.WithCancel(context.WithValue(w.Context(), tracedKey{}, 1))
				context.AfterFunc(child, func() {
					cancel()
					ended <- struct{}{}
				})
			}
			started <- runtime.NumGoroutine() - before
			context.AfterFunc(ctx, func() { w.Fail(nil) })
			return nil
		}
		w := listen(t, kind, endpoint.Options{Tracer: new(tracing)}, profile(h))
		r := w.dial(t)
		r.send(t, request("0123456789abcdef", "x"))
		if more := <-started; more > watchers/2 {
			t.Errorf("%d goroutines for %d watchers", more, watchers)
		}
		r.raw.Reset(0)
		for range watchers {
			<-ended
		}
	})
}

func TestTracedContextsEndWithTheirStream(t *testing.T) {
	inVirtualTime(t, endpoint.Options{Tracer: new(tracing)}, func(t *testing.T, r *rig) {
		r.send(t, request("0123456789abcdef", "x"))
		synctest.Wait()
		r.raw.Reset(1)
		r.wantVerdict(t, 1, profiles.OK, "gone", endpoint.Kept)
	}, profile(slowEcho(nil)))
}
