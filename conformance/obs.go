package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
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

// emittingProfiles are OBS, EVENTS and RPC with the method vector.emit: it emits
// an event that is related to the call by msg_id and rpc_id, and whose body is
// the trace context that the call was made in.
func emittingProfiles(s *stage) ([]*profiles.Profile, error) {
	bus, err := events.New(events.Options{Now: s.clock.now})
	if err != nil {
		return nil, err
	}
	s.onClose(bus.Close)
	n := 0
	calls, err := rpc.New(rpc.Options{Methods: map[string]rpc.Method{
		"vector.emit": {Detached: func(ctx context.Context, req *profiles.Request, _ []byte, _ func([]byte) error) ([]byte, error) {
			var call rpc.Req
			if err := call.Decode(req.Payload); err != nil {
				return nil, err
			}
			n++
			return nil, bus.Publish(ctx, "spiffe://endpoint.invalid/under-test", &events.Record{
				EventID: fmt.Appendf(nil, "emitted-%d", n), EventType: []byte("vector.emitted"), Severity: []byte("info"),
				Timestamp: uint64(s.clock.now().UnixMilli()), MsgID: req.MsgID, RPCID: call.RPCID,
				Body: []byte(profiles.TraceOf(ctx).Parent + " " + profiles.TraceOf(ctx).State),
			})
		}},
	}})
	if err != nil {
		return nil, err
	}
	return []*profiles.Profile{s.contexts(), witnessed(s, calls), witnessed(s, bus.Profile())}, nil
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
	if err := obs.ForCall(ctx, o.Lane, req.RPCID); err != nil {
		return nil, err
	}
	return o.Lane.Call(ctx, env)
}
