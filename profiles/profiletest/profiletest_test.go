package profiletest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
)

// failures is a testing.TB that keeps what would have failed a test.
type failures struct {
	testing.TB
	texts []string
}

func (f *failures) Helper()                      {}
func (f *failures) Error(args ...any)            { f.texts = append(f.texts, fmt.Sprint(args...)) }
func (f *failures) Errorf(s string, args ...any) { f.texts = append(f.texts, fmt.Sprintf(s, args...)) }
func (f *failures) Fatal(args ...any)            { f.Error(args...); runtime.Goexit() }
func (f *failures) Fatalf(s string, args ...any) { f.Errorf(s, args...); runtime.Goexit() }

// failuresOf returns what a check would have failed with.
func failuresOf(t *testing.T, check func(testing.TB)) []string {
	f := &failures{TB: t}
	done := make(chan struct{})
	go func() { defer close(done); check(f) }()
	<-done
	return f.texts
}

// broken returns a profile with one initiating type, 1, and one answer, 2.
func broken(h profiles.HandlerFunc) *profiles.Profile {
	return &profiles.Profile{
		ID: 7, Name: "broken", Handler: h,
		Types: []profiles.Type{{ID: 1, Name: "ASK", Role: profiles.Initiating}, {ID: 2, Name: "TELL", Role: profiles.Answer}},
	}
}

func TestHandlersThatBreakTheContractAreFound(t *testing.T) {
	answer := func(payload []byte) e1.Envelope { return e1.Envelope{MsgType: 2, Payload: payload} }
	good := Case{Name: "good", Type: 1, Payload: []byte("payload"), Answers: []uint64{2}}
	for _, test := range []struct {
		name  string
		serve profiles.HandlerFunc
		want  string
	}{
		{"nothing wrong", func(_ context.Context, req *profiles.Request, w profiles.Responder) error {
			return w.Finish(answer(append(req.Scratch(10), req.Payload...)))
		}, ""},
		{"nothing wrong, detached", func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			return req.Detach(func(_ context.Context, req *profiles.Request, w profiles.Responder) error {
				return w.Finish(answer(req.Payload))
			})
		}, ""},
		{"keeps a window in a detached function", func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			kept := req.Payload
			return req.Detach(func(_ context.Context, _ *profiles.Request, w profiles.Responder) error {
				return w.Finish(answer(kept))
			})
		}, "differ when the request is overwritten"},
		{"answers with an initiating type", func(_ context.Context, _ *profiles.Request, w profiles.Responder) error {
			return w.Finish(e1.Envelope{MsgType: 1})
		}, "not in the table with that role"},
		{"answers with an unlisted type", func(_ context.Context, _ *profiles.Request, w profiles.Responder) error {
			return w.Finish(e1.Envelope{MsgType: 3})
		}, "not in the table with that role"},
		{"answers for another profile", func(_ context.Context, _ *profiles.Request, w profiles.Responder) error {
			return w.Finish(e1.Envelope{ProfileID: 8, MsgType: 2})
		}, "answer of profile 8"},
		{"does not answer", func(context.Context, *profiles.Request, profiles.Responder) error { return nil }, "answers of types []"},
		{"refuses what is good", func(context.Context, *profiles.Request, profiles.Responder) error {
			return profiles.Errorf(profiles.InvalidProfilePayload, "no")
		}, "refused"},
		{"uses the Responder of Serve later", func(_ context.Context, req *profiles.Request, outer profiles.Responder) error {
			return req.Detach(func(context.Context, *profiles.Request, profiles.Responder) error {
				return outer.Finish(answer(nil))
			})
		}, "used after Serve"},
		{"detaches twice", func(_ context.Context, req *profiles.Request, _ profiles.Responder) error {
			end := func(_ context.Context, _ *profiles.Request, w profiles.Responder) error { return w.Finish(answer(nil)) }
			_ = req.Detach(end)
			_ = req.Detach(end)
			return nil
		}, "that is answered, detached, held or gone"},
		{"fails inside Serve", func(_ context.Context, _ *profiles.Request, w profiles.Responder) error {
			w.Fail(nil)
			return w.Finish(answer(nil))
		}, "Fail inside Serve"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := failuresOf(t, func(tb testing.TB) {
				keepsNothing(tb, func(testing.TB) *profiles.Profile { return broken(test.serve) }, good)
			})
			switch {
			case test.want == "" && len(got) > 0:
				t.Errorf("failed: %q", got)
			case !strings.Contains(strings.Join(got, "\n"), test.want):
				t.Errorf("failures %q, want %q among them", got, test.want)
			}
		})
	}
}

func TestLaxHandlersAndBadRefusalsAreFound(t *testing.T) {
	accept := func(_ context.Context, _ *profiles.Request, w profiles.Responder) error {
		return w.Finish(e1.Envelope{MsgType: 2})
	}
	c := Case{Name: "good", Type: 1, Payload: []byte("payload"), Answers: []uint64{2}}
	wantFailure := func(name, want string, check func(testing.TB)) {
		t.Helper()
		if got := failuresOf(t, check); !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("%s: failures %q, want %q among them", name, got, want)
		}
	}
	wantFailure("accepts anything", "prefix of 0 octets: accepted", func(tb testing.TB) { prefixes(tb, broken(accept), c) })
	internal := broken(func(context.Context, *profiles.Request, profiles.Responder) error { return context.Canceled })
	wantFailure("blames itself", "want a refusal with a reason", func(tb testing.TB) { Arbitrary(New(tb, internal), 1, []byte("x")) })
	long := broken(accept)
	long.Refusal = func(*profiles.Request, *profiles.Error) (e1.Envelope, bool) {
		return e1.Envelope{MsgType: 2, Payload: make([]byte, 500)}, true
	}
	wantFailure("long refusals", "octets as a frame", func(tb testing.TB) { refuse(tb, long, 1, nil, 1) })
	asking := broken(accept)
	asking.Refusal = func(*profiles.Request, *profiles.Error) (e1.Envelope, bool) { return e1.Envelope{MsgType: 1}, true }
	wantFailure("refusals that ask", "which is no answer", func(tb testing.TB) { refuse(tb, asking, 1, nil, 1) })

	wantFailure("a type without a case", "has no case", func(tb testing.TB) { table(tb, broken(accept), nil) })
	twice := broken(accept)
	twice.Types[1].Name = "ASK"
	wantFailure("a name twice", "there twice", func(tb testing.TB) { table(tb, twice, []Case{c}) })
	if got := failuresOf(t, func(tb testing.TB) { table(tb, broken(accept), []Case{c}) }); len(got) > 0 {
		t.Errorf("a good table failed: %q", got)
	}
}
