package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/slimwire/swp/e1"
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
		return buildHop, nil
	}
	return nil, fmt.Errorf("%w: nothing here plays setup %q", ErrNotPlayed, setup)
}

// contexts is the OBS profile, which from now on is asked for the context of
// each exchange.
func (s *stage) contexts() *profiles.Profile {
	c := obs.New(obs.Options{})
	s.tracer = endpoint.ContextFunc(c.Attach)
	return witnessed(s, c.Profile())
}

// emittingProfiles are OBS, EVENTS, RPC with the method vector.emit and A2A with
// a worker for the kind of that name: each emits an event.
func emittingProfiles(s *stage) ([]*profiles.Profile, error) {
	bus, err := events.New(events.Options{Now: s.clock.now})
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
		Store: db, Now: s.clock.now,
		Workers: []a2a.Registration{{Kinds: []string{"vector.emit"}, Worker: a2a.WorkerFunc(e.task)}},
	})
	if err != nil {
		return nil, err
	}
	s.onClose(tasks.Close)
	return []*profiles.Profile{
		s.contexts(), witnessed(s, calls), witnessed(s, tasks.Profile()), witnessed(s, bus.Profile()),
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

// buildHop sets an endpoint between two connections: calls of vector.held that
// come on "a" are made on "b", in the trace context that they came with.
func buildHop(s *stage) error {
	h := &hop{s: s}
	calls, err := rpc.New(rpc.Options{Methods: map[string]rpc.Method{"vector.held": {Held: h.call}}})
	if err != nil {
		return err
	}
	w := witnessed(s, calls)
	w.Handler = h.before(w.Handler)
	ep, err := s.endpoint([]*profiles.Profile{s.contexts(), w})
	if err != nil {
		return err
	}
	if h.next, err = s.pipe(ep, "b"); err != nil {
		return err
	}
	_, err = s.pipe(ep, "a")
	return err
}

// hop passes calls on.
type hop struct {
	s     *stage
	next  *endpoint.Session
	rpcID []byte // of the call that is being served
}

func (h *hop) before(inner profiles.Handler) profiles.Handler {
	return profiles.HandlerFunc(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
		var in rpc.Req
		if req.MsgType == rpc.TypeReq && in.Decode(req.Payload) == nil {
			h.rpcID = bytes.Clone(in.RPCID)
		}
		return inner.Serve(ctx, req, w)
	})
}

func (h *hop) call(p *rpc.Pending, params []byte) error {
	lane, err := h.next.Open(p.Context())
	if err != nil {
		return err
	}
	stream, err := rpc.Open(p.Context(), &onward{Lane: lane, h: h}, "vector.held", params)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(p.Context())
	done := make(chan struct{})
	h.s.onClose(func() { cancel(); <-done })
	go func() {
		defer close(done)
		defer stream.Close()
		h.receive(ctx, p, stream)
	}()
	return nil
}

func (h *hop) receive(ctx context.Context, p *rpc.Pending, stream *rpc.Stream) {
	for {
		item, err := stream.Recv(ctx)
		switch {
		case err == nil:
			err = p.Item(item)
		case errors.Is(err, io.EOF):
			_ = p.Return(stream.Result())
			return
		}
		if err != nil {
			p.Fail(err)
			return
		}
	}
}

// onward is where the call goes on: its trace context goes ahead of it.
type onward struct {
	profiles.Lane
	h *hop
}

func (o *onward) Call(ctx context.Context, env e1.Envelope) (profiles.Call, error) {
	var req rpc.Req
	if err := req.Decode(env.Payload); err != nil {
		return nil, err
	}
	o.h.s.alias("b", o.h.rpcID, req.RPCID)
	ctx, err := new(obs.Contexts).Forward(ctx, o.Lane, &profiles.Onward{Scope: profiles.ScopeRPC, ID: req.RPCID})
	if err != nil {
		return nil, err
	}
	return o.Lane.Call(ctx, env)
}
