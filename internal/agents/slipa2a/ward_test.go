package slipa2a

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/internal/bridge/a2abinding"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/slip/slipstream"
)

// wrapping puts an Extension before an agent.
type wrapping func(x *Extension, agent a2a.Worker) a2a.Worker

// inBothWays runs a test with Wrap, for an agent of this process, and with Ward, for one that
// is elsewhere.
func inBothWays(t *testing.T, test func(t *testing.T, way wrapping)) {
	t.Run("here", func(t *testing.T) { test(t, (*Extension).Wrap) })
	t.Run("elsewhere", func(t *testing.T) { test(t, elsewhere) })
}

// elsewhere does with an agent what profile 2 does with one on a session that has a Ward.
func elsewhere(x *Extension, agent a2a.Worker) a2a.Worker {
	return a2a.WorkerFunc(func(ctx context.Context, t *a2a.Task, event func(string, []byte) error) ([]byte, error) {
		w := x.Ward(t, true, unguarded{})
		if err := w.Admit(ctx, nil); err != nil {
			return nil, err
		}
		given := *t
		given.Input, given.Params = w.Given(t.Input, t.Params)
		var refused error
		output, err := agent.Run(ctx, &given, func(kind string, octets []byte) error {
			passed, keep := w.Event(octets)
			if keep != nil && refused == nil {
				keep(func(err error) { refused = err })
			}
			if refused != nil {
				return refused
			}
			return event(kind, passed)
		})
		if err := errors.Join(refused, err); err != nil {
			return nil, err
		}
		return w.Output(ctx, output)
	})
}

// unguarded is a Ward that allows everything.
type unguarded struct{}

func (unguarded) Admit(context.Context, a2a.Carded) error { return nil }

func (unguarded) Given(input []byte, params []string) ([]byte, []string) { return input, params }

func (unguarded) Event(payload []byte) ([]byte, func(func(error))) { return payload, nil }

func (unguarded) Output(_ context.Context, output []byte) ([]byte, error) { return output, nil }

// guarded is a Ward that refuses everything.
type guarded struct{ unguarded }

var errGuarded = errors.New("guarded")

func (guarded) Admit(context.Context, a2a.Carded) error { return errGuarded }

func (guarded) Event(payload []byte) ([]byte, func(func(error))) {
	return payload, func(done func(error)) { done(errGuarded) }
}

func (guarded) Output(context.Context, []byte) ([]byte, error) { return nil, errGuarded }

func TestAWardGivesTheSameTaskEachTime(t *testing.T) {
	for mismatch, message := range map[Mismatch][]byte{Refuse: say(""), Fallback: sayHash(foreign)} {
		in := task(a2abinding.SendStreamingMessage, send(message, ""), "a2a-version=1.0", Param)
		before := *in
		var first []byte
		for range 2 { // as after a restart
			w := extension(t, Options{Mismatch: mismatch}).Ward(in, true, unguarded{})
			for range 2 {
				input, params := w.Given(in.Input, in.Params)
				if first == nil {
					first = input
				}
				if string(input) != string(first) || strings.Contains(string(input), URI) == (mismatch == Fallback) || OptedIn(params) == (mismatch == Fallback) {
					t.Errorf("%s: %s, %q; at first %s", mismatch, input, params, first)
				}
			}
		}
		if diff := cmp.Diff(before, *in); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAWardAsksTheOneBehindIt(t *testing.T) {
	w := extension(t, Options{}).Ward(task(a2abinding.SendMessage, send(say(""), ""), Param), true, guarded{})
	if err := w.Admit(t.Context(), nil); !errors.Is(err, errGuarded) {
		t.Errorf("admitted: %v", err)
	}
	_, keep := w.Event([]byte(`{"message":{}}`))
	if keep == nil {
		t.Fatal("nothing is kept")
	}
	keep(func(err error) {
		if !errors.Is(err, errGuarded) {
			t.Errorf("event: %v", err)
		}
	})
	if _, err := w.Output(t.Context(), []byte(`{"message":{}}`)); !errors.Is(err, errGuarded) {
		t.Errorf("output: %v", err)
	}
}

// An endpoint between two others does not know the anchors of the far end, and does not change
// the cards of its agents.
func TestAWardOfAnotherOrganisationsAgent(t *testing.T) {
	line := strings.Replace(string(say("")), "RequestReview", "ShipIt", 1)
	for transit, class := range map[bool]string{true: "", false: "unknown_anchor"} {
		x := extension(t, Options{Codec: slipstream.Codec{Transit: transit}})
		err := x.Ward(task(a2abinding.SendMessage, send([]byte(line), ""), Param), false, unguarded{}).Admit(t.Context(), nil)
		if class == "" && err != nil || class != "" && (err == nil || !strings.Contains(string(failureOf(t, err).Data), class)) {
			t.Errorf("transit %v: %v", transit, err)
		}
	}
	const card = `{"name":"a"}`
	for own, declares := range map[bool]bool{true: true, false: false} {
		w := extension(t, Options{}).Ward(task(a2abinding.GetExtendedAgentCard, `{}`), own, unguarded{})
		output, err := w.Output(t.Context(), []byte(card))
		if _, ok, _ := Declared(output); err != nil || ok != declares || !declares && string(output) != card {
			t.Errorf("own %v: %s, %v", own, output, err)
		}
	}
}
