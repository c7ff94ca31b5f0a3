package conformance

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/obs"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/vectors"
)

// buildOBS returns what sets an endpoint with the OBS profile, whose contexts
// reach the handlers of the others. It serves methods that emit an event about
// the call, or passes calls on to a second hop.
func buildOBS(setup string) (func(*stage) error, error) {
	switch setup {
	case vectors.Serve:
		return serving(emittingProfiles), nil
	case vectors.Relay:
		return func(s *stage) error { return buildHop(s, s.contexts(), rpc.Options{}) }, nil
	}
	return nil, fmt.Errorf("%w: nothing here plays setup %q", ErrNotPlayed, setup)
}

// contexts is the OBS profile, which from now on is asked for the context of
// each exchange.
func (s *stage) contexts() *obs.Contexts {
	c := obs.New(obs.Options{})
	s.tracer = endpoint.ContextFunc(c.Attach)
	return c
}

// emittingProfiles are OBS, EVENTS, RPC with the method vector.emit and A2A with
// a worker for the kind of that name: each emits an event.
func emittingProfiles(s *stage) ([]*profiles.Profile, error) {
	bus, err := events.New(events.Options{Heartbeat: never, Now: s.clock.now})
	if err != nil {
		return nil, err
	}
	s.onClose(bus.Close)
	e := &emitter{s: s, bus: bus}
	calls, err := rpc.New(rpc.Options{Methods: map[string]rpc.Method{"vector.emit": {Detached: e.call}}})
	if err != nil {
		return nil, err
	}
	db, err := s.store()
	if err != nil {
		return nil, err
	}
	tasks, err := a2a.New(a2a.Options{
		Store: db, Now: s.clock.now, After: s.clock.after,
		Workers: []a2a.Registration{{Kinds: []string{"vector.emit"}, Worker: a2a.WorkerFunc(e.task)}},
	})
	if err != nil {
		return nil, err
	}
	s.onClose(tasks.Close)
	return []*profiles.Profile{
		witnessed(s, s.contexts().Profile()), witnessed(s, calls), witnessed(s, tasks.Profile()), witnessed(s, bus.Profile()),
	}, nil
}

// emitter emits events about what is done: related to it by its ids, and with
// the trace context that it is done in as body.
type emitter struct {
	s   *stage
	bus *events.Bus
	n   atomic.Int64
}

func (e *emitter) call(ctx context.Context, req *profiles.Request, _ []byte, _ func([]byte) error) ([]byte, error) {
	var call rpc.Req
	if err := call.Decode(req.Payload); err != nil {
		return nil, err
	}
	return nil, e.emit(ctx, &events.Record{MsgID: req.MsgID, RPCID: call.RPCID})
}

func (e *emitter) task(ctx context.Context, t *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
	return nil, e.emit(ctx, &events.Record{TaskID: t.ID})
}

func (e *emitter) emit(ctx context.Context, r *events.Record) error {
	trace := profiles.TraceOf(ctx)
	r.EventID, r.EventType, r.Severity = fmt.Appendf(nil, "emitted-%d", e.n.Add(1)), []byte("vector.emitted"), []byte("info")
	r.Timestamp, r.Body = uint64(e.s.clock.now().UnixMilli()), []byte(trace.Parent+" "+trace.State)
	return e.bus.Publish(ctx, "spiffe://endpoint.invalid/under-test", r)
}
