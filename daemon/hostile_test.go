package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/daemon/internal/served"
	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/agdisc"
	"github.com/slimwire/swp/profiles/events"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/transporttest"
)

// hostile is a partner b that reads and writes frames, and has nothing of this project
// behind them: its answers are the test's.
type hostile struct {
	*organisation
	turn    sync.Mutex // of who answers
	mu      sync.Mutex
	answers func(m *told) bool // false: as an honest partner would
	info    []byte             // result of swp.info
	conns   []transport.Conn
	dialled atomic.Int32
}

// told is a message that the partner was sent, and where to answer it.
type told struct {
	e1.Envelope
	to *voice
}

// voice writes frames to a stream.
type voice struct {
	mu     sync.Mutex
	stream transport.Stream
}

func (v *voice) say(env e1.Envelope) {
	v.mu.Lock()
	defer v.mu.Unlock()
	body := env.Append(frame.AppendHeader(nil, env.Size()))
	_, _ = v.stream.Write(body) // or the other end has had enough
}

// answer answers with a message of the same profile.
func (s *told) answer(msgType uint64, payload []byte, ext ...e1.Extensions) {
	env := e1.Envelope{Version: e1.Version, ProfileID: s.ProfileID, MsgType: msgType, MsgID: s.MsgID, Payload: payload}
	for _, e := range ext {
		env.Extensions = append(env.Extensions, e...)
	}
	s.to.say(env)
}

// returns answers a call.
func (s *told) returns(result []byte) {
	var req rpc.Req
	if req.Decode(s.Payload) != nil {
		return
	}
	m := rpc.Resp{RPCID: req.RPCID, Result: result}
	s.answer(rpc.TypeResp, m.Append(nil))
}

// method is the method that is called, "" if it is no call.
func (s *told) method() string {
	var req rpc.Req
	if s.ProfileID != rpc.ProfileID || s.MsgType != rpc.TypeReq || req.Decode(s.Payload) != nil {
		return ""
	}
	return string(req.Method)
}

// with has the partner answer in this way from now on.
func (h *hostile) with(answers func(s *told) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers = answers
}

func (h *hostile) hear(s *told) {
	h.turn.Lock()
	defer h.turn.Unlock()
	h.mu.Lock()
	answers, info := h.answers, h.info
	h.mu.Unlock()
	if answers != nil && answers(s) {
		return
	}
	switch s.method() {
	case rpc.MethodInfo:
		s.returns(info)
	case agdisc.MethodList:
		s.returns([]byte(`{"agents":[]}`))
	case rpc.MethodPing, rpc.MethodSync:
		s.returns(nil)
	}
}

// offered is what a partner says that it serves: everything.
func offered(t *testing.T) []byte {
	t.Helper()
	info := rpc.Info{Partner: true, Extensions: map[uint64][]uint64{0: {profiles.ExtTarget}, 1: {16, 17}, 2: {16, 20}}}
	for _, p := range served.Tables(nil) {
		info.Profiles = append(info.Profiles, rpc.ProfileInfo{ID: p.ID})
	}
	octets, err := json.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	return octets
}

// atHostile starts an organisation a with a hostile partner b.
func atHostile(t *testing.T, link int, yamlA string) (a *organisation, h *hostile) {
	t.Helper()
	a = open(t, "a", yamlA)
	dir, name := t.TempDir(), "spiffe://b.example/swpd"
	if err := devpki.Create(filepath.Join(dir, "pki"), devpki.Options{Name: name}); err != nil {
		t.Fatal(err)
	}
	h = &hostile{organisation: &organisation{&running{t: t, dir: dir}, "b", name}, info: offered(t)}
	f := devpki.Server(filepath.Join(dir, "pki"))
	c := &config.Config{Identity: config.Identity{Cert: f.Cert, Key: f.Key}, Trust: config.Trust{CA: []string{a.ca()}}}
	l, err := identity.Read(c, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	kind := []string{"tls", "quic"}[link]
	ln := transporttest.Listen(t, kind, &transport.Policy{Credentials: l.Current}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		_ = ln.Close()
		h.hangUp()
		work.Wait()
	})
	work.Go(func() {
		for conn, err := ln.Accept(ctx); err == nil; conn, err = ln.Accept(ctx) {
			h.dialled.Add(1)
			h.mu.Lock()
			h.conns = append(h.conns, conn)
			h.mu.Unlock()
			work.Go(func() { h.serve(ctx, conn, &work) })
		}
	})
	a.trusting("b", h.organisation, "swp+"+kind+"://"+ln.Addr().String())
	a.connected("b")
	return a, h
}

// hangUp closes the connections.
func (h *hostile) hangUp() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, conn := range h.conns {
		_ = conn.Close(0)
	}
	h.conns = nil
}

// serve hears the streams of a connection.
func (h *hostile) serve(ctx context.Context, conn transport.Conn, work *sync.WaitGroup) {
	for stream, err := conn.Accept(ctx); err == nil; stream, err = conn.Accept(ctx) {
		work.Go(func() {
			r := frame.NewReader(stream, frame.Options{})
			to := &voice{stream: stream}
			for body, err := r.Next(); err == nil; body, err = r.Next() {
				s := &told{to: to}
				limits := e1.Limits{}.WithDefaults()
				if s.Decode(body, &limits) != nil {
					return
				}
				s.Envelope = s.Clone()
				h.hear(s)
			}
			_ = stream.CloseWrite()
			if r, ok := stream.(transport.Releaser); ok {
				r.Release()
			}
		})
	}
}

// flood sends answers that nobody has asked for, each on a stream of its own where there are
// several.
func (h *hostile) flood(ctx context.Context) {
	h.mu.Lock()
	conns := slices.Clone(h.conns)
	h.mu.Unlock()
	for _, conn := range conns {
		for i := range 25 {
			for _, kind := range [][2]uint64{
				{rpc.ProfileID, rpc.TypeResp}, {events.ProfileID, events.TypeBatch}, {state.ProfileID, state.TypePut}, {a2a.ProfileID, a2a.TypeResult},
			} {
				stream, err := conn.Open(ctx)
				if err != nil {
					return
				}
				to := voice{stream: stream}
				to.say(e1.Envelope{Version: e1.Version, ProfileID: kind[0], MsgType: kind[1], MsgID: fmt.Appendf(nil, "nobody's %08d", i), Payload: []byte("x")})
			}
		}
	}
}
