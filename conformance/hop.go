package conformance

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport/endpoint"
)

// carrier is a Carrier with a profile, such as OBS.
type carrier interface {
	profiles.Carrier
	Profile() *profiles.Profile
}

// hop forwards calls of vector.held from connection "a" to connection "b". The messages of
// a carrier precede a call.
type hop struct {
	s       *stage
	carrier carrier
	next    *endpoint.Session
	rpcID   []byte // of the current call
}

// buildHop builds an endpoint between two connections. opts configure RPC, without methods.
func buildHop(s *stage, c carrier, opts rpc.Options) error {
	h := &hop{s: s, carrier: c}
	opts.Methods = map[string]rpc.Method{"vector.held": {Held: h.call}}
	calls, err := rpc.New(opts)
	if err != nil {
		return err
	}
	w := witnessed(s, calls)
	w.Handler = h.before(w.Handler)
	ep, err := s.endpoint([]*profiles.Profile{witnessed(s, c.Profile()), w})
	if err != nil {
		return err
	}
	if h.next, err = s.pipe(ep, "b"); err != nil {
		return err
	}
	_, err = s.pipe(ep, "a")
	return err
}

// before records the rpc_id of a call before the handler runs.
func (h *hop) before(inner profiles.Handler) profiles.Handler {
	return profiles.HandlerFunc(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
		var in rpc.Req
		if req.MsgType == rpc.TypeReq && in.Decode(req.Payload) == nil {
			h.rpcID = bytes.Clone(in.RPCID)
		}
		return inner.Serve(ctx, req, w)
	})
}

// call makes the call on "b", on another goroutine, because the carrier may wait for an
// answer there.
func (h *hop) call(p *rpc.Pending, params []byte) error {
	lane, err := h.next.Open(p.Context())
	if err != nil {
		return err
	}
	on := &hopLane{aliasedLane{lane, h.s, h.rpcID}, h.carrier}
	params = bytes.Clone(params)
	h.s.tasks.Go(func() {
		stream, err := rpc.Open(p.Context(), on, "vector.held", params)
		if err != nil {
			p.Fail(err)
			return
		}
		defer stream.Close()
		h.receive(p.Context(), p, stream)
	})
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

// aliasedLane is a lane of connection "b" for one call. It registers the rpc_id that the
// endpoint chooses.
type aliasedLane struct {
	profiles.Lane
	s       *stage
	written []byte // rpc_id of the call in the script
}

func (l *aliasedLane) Call(ctx context.Context, env e1.Envelope) (profiles.Call, error) {
	if _, err := l.learn(&env); err != nil {
		return nil, err
	}
	return l.Lane.Call(ctx, env)
}

// learn reads the request, and makes its rpc_id known to the stage.
func (l *aliasedLane) learn(env *e1.Envelope) (req rpc.Req, err error) {
	if err := req.Decode(env.Joined().Payload); err != nil {
		return req, err
	}
	l.s.alias("b", l.written, req.RPCID)
	l.s.alias("b", hex.AppendEncode(nil, l.written), hex.AppendEncode(nil, req.RPCID)) // in the scope of a hint
	return req, nil
}

// hopLane is an aliasedLane on which the messages of a carrier go ahead of the call.
type hopLane struct {
	aliasedLane
	carrier carrier
}

func (l *hopLane) Call(ctx context.Context, env e1.Envelope) (profiles.Call, error) {
	req, err := l.learn(&env)
	if err != nil {
		return nil, err
	}
	on := profiles.Onward{Name: string(req.Method), Scope: profiles.ScopeRPC, ID: req.RPCID}
	ctx, err = l.carrier.Forward(ctx, l.Lane, &on)
	if err != nil {
		return nil, err
	}
	return l.Lane.Call(ctx, env)
}
