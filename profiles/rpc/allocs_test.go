package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
)

// loop is the least that an endpoint has to be: one scratch buffer, and an
// answer that is looked at and forgotten.
type loop struct {
	profiles.Exchange
	scratch []byte
	sent    e1.Envelope
}

func (l *loop) Scratch(n int) []byte {
	if cap(l.scratch) < n {
		l.scratch = make([]byte, 0, n)
	}
	return l.scratch[:0]
}

func (l *loop) About(profiles.Subject)          {}
func (l *loop) Send(env e1.Envelope) error      { l.sent = env; return nil }
func (l *loop) Offer(env e1.Envelope) error     { return l.Send(env) }
func (l *loop) Finish(env e1.Envelope) error    { return l.Send(env) }
func (l *loop) Fail(error)                      {}
func (l *loop) Pace(context.Context, int) error { return nil }
func (l *loop) Context() context.Context        { return context.Background() }

func echo(tb testing.TB, size int) (serve func(), l *loop, params []byte) {
	params = bytes.Repeat([]byte{7}, size)
	p := newProfile(tb, rpc.Options{})
	l = new(loop)
	in := rpc.Req{RPCID: []byte("0123456789abcdef"), Method: []byte("swp.echo"), Params: params}
	request := &profiles.Request{
		Envelope: e1.Envelope{Version: 1, ProfileID: rpc.ProfileID, MsgType: rpc.TypeReq, MsgID: make([]byte, 16), Payload: in.Append(nil)},
		Exchange: l,
	}
	return func() {
		if err := p.Handler.Serve(context.Background(), request, l); err != nil {
			tb.Fatal(err)
		}
	}, l, params
}

// prompt answers each call at once, with its params.
type prompt struct {
	answer           e1.Envelope
	request, payload []byte
	open             int // calls
}

func (p *prompt) Call(_ context.Context, env e1.Envelope) (profiles.Call, error) {
	var req rpc.Req
	p.request = append(append(p.request[:0], env.Payload...), env.Tail...)
	if err := req.Decode(p.request); err != nil {
		return nil, err
	}
	m := rpc.Resp{RPCID: req.RPCID, Result: req.Params}
	p.payload = m.Append(p.payload[:0])
	p.answer = e1.Envelope{ProfileID: rpc.ProfileID, MsgType: rpc.TypeResp, Payload: p.payload}
	p.open++
	return (*promptCall)(p), nil
}

type promptCall prompt

func (p *promptCall) MsgID() []byte                              { return nil }
func (p *promptCall) Lane() profiles.Lane                        { return nil }
func (p *promptCall) Recv(context.Context) (*e1.Envelope, error) { return &p.answer, nil }
func (p *promptCall) Close()                                     { p.open-- }

func TestACallThatEndsWellIsOneAllocation(t *testing.T) {
	on, params := new(prompt), make([]byte, 64)
	call := func() {
		s, err := rpc.Open(t.Context(), on, "swp.echo", params)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(t.Context()); !errors.Is(err, io.EOF) || !bytes.Equal(s.Result(), params) {
			t.Fatal(err)
		}
		s.Close()
	}
	call()
	if n := testing.AllocsPerRun(100, call); n != 1 {
		t.Errorf("%v allocations, want 1: the Stream", n)
	}
}

func TestCallsOfACallerAllocateNothing(t *testing.T) {
	for _, size := range []int{0, 64, 4 << 10} {
		calls, params := rpc.NewCaller(new(prompt)), make([]byte, size)
		call := func() {
			if result, err := calls.Call(t.Context(), "swp.echo", params); err != nil || !bytes.Equal(result, params) {
				t.Fatalf("%d octets: %d came back, %v", size, len(result), err)
			}
		}
		call()
		if n := testing.AllocsPerRun(100, call); n != 0 {
			t.Errorf("%d octets: %v allocations, want none", size, n)
		}
	}
}

func TestEchoDoesNotAllocate(t *testing.T) {
	for _, size := range []int{64, 4 << 10, 1 << 20} {
		serve, l, params := echo(t, size)
		serve()
		var m rpc.Resp
		answer := l.sent.Clone()
		if err := m.Decode(answer.Payload); err != nil || !bytes.Equal(m.Result, params) {
			t.Fatalf("%d octets: result of %d, error %v", size, len(m.Result), err)
		}
		if n := testing.AllocsPerRun(100, serve); n != 0 {
			t.Errorf("%d octets: %v allocations, want none", size, n)
		}
	}
}

func BenchmarkEcho(b *testing.B) {
	serve, _, _ := echo(b, 64)
	b.ReportAllocs()
	for b.Loop() {
		serve()
	}
}
