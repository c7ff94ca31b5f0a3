package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// rpcProfiles are the RPC profile with two methods that the script answers. One
// is held, the other runs in the pool of its session. The application calls
// methods of the peers, too.
func rpcProfiles(s *stage) ([]*profiles.Profile, error) {
	db, err := s.store()
	if err != nil {
		return nil, err
	}
	c := &callee{s: s, asked: make(map[string]string)}
	p, err := rpc.New(rpc.Options{
		Methods: map[string]rpc.Method{
			"vector.held":     {Held: c.held},
			"vector.detached": {Detached: c.detached},
		},
		Outcomes: db, Context: s.ctx, Handler: never, Now: s.clock.now,
	})
	if err != nil {
		return nil, err
	}
	s.app.opens = s.opensCall
	w := witnessed(s, p)
	w.Handler = c.before(w.Handler)
	return []*profiles.Profile{w}, nil
}

// callee is what runs behind the methods.
type callee struct {
	s *stage

	mu    sync.Mutex
	asked map[string]string // method of the last request, by connection and rpc_id
}

// before notes what is asked for under which rpc_id: a method is not told the
// rpc_id, and the script names calls by it.
func (c *callee) before(h profiles.Handler) profiles.Handler {
	return profiles.HandlerFunc(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
		var in rpc.Req
		if req.MsgType == rpc.TypeReq && in.Decode(req.Payload) == nil {
			c.mu.Lock()
			c.asked[nameOf(req.Session.Peer())+string(in.RPCID)] = string(in.Method) + " " + string(in.Params)
			c.mu.Unlock()
		}
		return h.Serve(ctx, req, w)
	})
}

// script is what an App step says to a call.
type script struct {
	item   func(item []byte) error
	result func(result []byte) error
	fail   func(err error)
}

// hold keeps a call for the script.
func (c *callee) hold(ctx context.Context, peer *profiles.Peer, method string, params []byte, say script) {
	what, from := method+" "+string(params), nameOf(peer)
	m := rpc.Req{Method: []byte(method), Params: params}
	c.s.app.record(rpc.ProfileID, rpc.TypeReq, m.Append(nil))
	answered := c.s.app.stops(ctx, func() {
		c.s.app.record(rpc.ProfileID, rpc.TypeCancel, new(rpc.Cancel).Append(nil))
	})
	c.s.app.hold(heldExchange{
		takes: func(conn string, a *e1.Envelope) bool {
			id, err := firstField(a)
			c.mu.Lock()
			defer c.mu.Unlock()
			return err == nil && conn == from && c.asked[from+string(id)] == what
		},
		answer: func(a *e1.Envelope) (bool, error) {
			if a.MsgType != rpc.TypeStreamItem {
				answered()
			}
			return say.answer(a)
		},
		drop:  func() { say.fail(&rpc.Error{Code: rpc.CodeInternal, Message: "the script has no answer"}) },
		waits: func() bool { return ctx.Err() == nil },
	})
}

func (say script) answer(a *e1.Envelope) (terminal bool, err error) {
	switch a.MsgType {
	case rpc.TypeStreamItem:
		var m rpc.StreamItem
		if err := m.Decode(a.Payload); err != nil {
			return false, err
		}
		return false, say.item(m.Item)
	case rpc.TypeResp:
		var m rpc.Resp
		if err := m.Decode(a.Payload); err != nil {
			return false, err
		}
		err := say.result(m.Result)
		if errors.Is(err, profiles.ErrFinished) {
			err = nil // it comes too late, as the script may want it to
		}
		return true, err
	case rpc.TypeErr:
		var m rpc.Err
		if err := m.Decode(a.Payload); err != nil {
			return false, err
		}
		say.fail(&rpc.Error{Code: string(m.ErrorCode), Message: string(m.ErrorMessage), Retryable: m.Retryable})
		return true, nil
	}
	return false, fmt.Errorf("msg_type %d is no answer", a.MsgType)
}

func (c *callee) held(p *rpc.Pending, params []byte) error {
	c.hold(p.Context(), p.Session().Peer(), "vector.held", params, script{item: p.Item, result: p.Return, fail: p.Fail})
	return nil
}

// detached waits in the pool for the script to say something.
func (c *callee) detached(ctx context.Context, req *profiles.Request, params []byte, send func([]byte) error) ([]byte, error) {
	type outcome struct {
		result []byte
		err    error
	}
	ended := make(chan outcome, 1)
	c.hold(ctx, req.Session.Peer(), "vector.detached", params, script{
		item:   send,
		result: func(result []byte) error { ended <- outcome{result: bytes.Clone(result)}; return nil },
		fail:   func(err error) { ended <- outcome{err: err} },
	})
	select {
	case o := <-ended:
		return o.result, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// opensCall has the application call a method of a peer.
func (s *stage) opensCall(ctx context.Context, conn string, env *e1.Envelope) (opened bool, err error) {
	if env.MsgType != rpc.TypeReq {
		return false, nil
	}
	var req rpc.Req
	if err := req.Decode(env.Payload); err != nil {
		return false, err
	}
	session := s.sessions[conn]
	if session == nil {
		return false, fmt.Errorf("there is no connection %q", conn)
	}
	w := &watchedCaller{on: session, s: s}
	stream, err := rpc.Open(ctx, w, string(req.Method), req.Params)
	if err != nil {
		return false, err
	}
	if len(w.rpcID) != len(req.RPCID) {
		return false, fmt.Errorf("rpc_id %q has %d octets, and has to stand for one of %d", req.RPCID, len(req.RPCID), len(w.rpcID))
	}
	written := bytes.Clone(req.RPCID)
	s.alias(conn, written, w.rpcID)
	s.tasks.Go(func() { s.consume(s.ctx, stream, w, written) })
	return true, nil
}

// watchedCaller notes the ids of the call that is made.
type watchedCaller struct {
	on    profiles.Caller
	s     *stage
	rpcID []byte
	msgID []byte
	call  *call
}

func (w *watchedCaller) Call(ctx context.Context, env e1.Envelope) (profiles.Call, error) {
	var req rpc.Req
	if err := req.Decode(env.Joined().Payload); err != nil {
		return nil, err
	}
	w.rpcID = bytes.Clone(req.RPCID)
	c, err := w.on.Call(ctx, env)
	if err != nil {
		return nil, err
	}
	w.msgID = bytes.Clone(c.MsgID())
	w.call = w.s.called(w.msgID)
	return c, nil
}

// consume is the application that receives the answers of its call.
func (s *stage) consume(ctx context.Context, stream *rpc.Stream, w *watchedCaller, rpcID []byte) {
	for {
		item, err := stream.Recv(ctx)
		var failed *rpc.Error
		switch {
		case err == nil:
			m := rpc.StreamItem{RPCID: rpcID, Item: item}
			s.app.record(rpc.ProfileID, rpc.TypeStreamItem, m.Append(nil))
			s.judged(w.call, nil)
			continue
		case errors.Is(err, io.EOF):
			m := rpc.Resp{RPCID: rpcID, Result: stream.Result()}
			s.app.record(rpc.ProfileID, rpc.TypeResp, m.Append(nil))
			err = nil
		case errors.As(err, &failed):
			m := rpc.Err{RPCID: rpcID, ErrorCode: []byte(failed.Code), Retryable: failed.Retryable, ErrorMessage: []byte(failed.Message)}
			s.app.record(rpc.ProfileID, rpc.TypeErr, m.Append(nil))
			err = nil
		}
		stream.Close()
		s.judged(w.call, err)
		s.over(w.msgID)
		return
	}
}

// nameOf is the name of the connection that a peer is on.
func nameOf(p *profiles.Peer) string { return p.Identity[len(peerIdentity):] }
