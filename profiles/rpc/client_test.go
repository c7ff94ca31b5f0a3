package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// connect returns a session whose other end serves the methods given, on one
// stream or on many.
func connect(t *testing.T, many bool, methods map[string]rpc.Method) profiles.Session {
	t.Helper()
	a, b := transport.NewPipe(transport.PipeOptions{Multiplexed: many})
	attach(t, b, newProfile(t, rpc.Options{Methods: methods}))
	return attach(t, a, newProfile(t, rpc.Options{}))
}

// attach returns the session of a new endpoint on a connection.
func attach(t *testing.T, conn transport.Conn, list ...*profiles.Profile) *endpoint.Session {
	t.Helper()
	reg, err := profiles.NewRegistry(list...)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: reg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ep.Close() })
	return ep.Attach(conn)
}

// both runs a test over a connection that is one stream, and over one of many.
func both(t *testing.T, methods func() map[string]rpc.Method, f func(*testing.T, profiles.Session)) {
	for _, many := range []bool{false, true} {
		t.Run(fmt.Sprintf("many streams %v", many), func(t *testing.T) { f(t, connect(t, many, methods())) })
	}
}

func open() map[string]rpc.Method { return methods(nil) }

func TestCallOverAConnection(t *testing.T) {
	both(t, open, func(t *testing.T, s profiles.Session) {
		ctx := t.Context()
		big := bytes.Repeat([]byte("x"), 1<<20)
		for _, params := range [][]byte{nil, []byte("params"), big} {
			got, err := rpc.Call(ctx, s, rpc.MethodEcho, params)
			if err != nil || !bytes.Equal(got, params) {
				t.Fatalf("echo of %d octets: %d octets, error %v", len(params), len(got), err)
			}
		}
		// The items of a method that streams are dropped, its result is not.
		if got, err := rpc.Call(ctx, s, "test.count", []byte("abc")); err != nil || string(got) != "done" {
			t.Errorf("%q, %v", got, err)
		}
		for method, want := range map[string]rpc.Error{
			"nobody.knows": {Code: rpc.CodeUnknownMethod, Message: "unknown method"},
			"test.busy":    {Code: rpc.CodeUnavailable, Message: "later", Retryable: true},
			"test.broken":  {Code: rpc.CodeInternal, Message: "internal error"},
			"test.refused": {Code: rpc.CodeInvalidRequest, Message: "no such thing"},
		} {
			_, err := rpc.Call(ctx, s, method, nil)
			if got := new(rpc.Error); !errors.As(err, &got) || *got != want {
				t.Errorf("%s: error %v, want %v", method, err, &want)
			}
		}
	})
}

func TestACallerGoesOnAfterCallsThatFailed(t *testing.T) {
	both(t, func() map[string]rpc.Method {
		return map[string]rpc.Method{
			"test.block": {Detached: func(ctx context.Context, _ *profiles.Request, _ []byte, _ func([]byte) error) ([]byte, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}},
		}
	}, func(t *testing.T, s profiles.Session) {
		calls := rpc.NewCaller(s)
		for i := range 3 {
			params := bytes.Repeat([]byte{byte(i)}, 100<<i)
			if got, err := calls.Call(t.Context(), rpc.MethodEcho, params); err != nil || !bytes.Equal(got, params) {
				t.Errorf("%d octets came back, %v", len(got), err)
			}
			if _, err := calls.Call(t.Context(), "test.none", nil); !errors.As(err, new(*rpc.Error)) {
				t.Errorf("a method that is not there: %v", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			if _, err := calls.Call(ctx, "test.block", params); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a call that is given up: %v", err)
			}
			cancel()
		}
	})
}

func TestSyncIsAnsweredAfterEarlierFramesOfTheLane(t *testing.T) {
	var order []string
	var lane profiles.Lane
	s := connect(t, true, map[string]rpc.Method{"test.note": {Inline: func(_ *profiles.Request, params []byte) ([]byte, error) {
		order = append(order, string(params))
		return nil, nil
	}}})
	lane, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lane.Close() }()
	for _, note := range []string{"one", "two", "three"} {
		env := e1.Envelope{ProfileID: rpc.ProfileID, MsgType: rpc.TypeReq, Payload: req("id"+note, "test.note", note)}
		call, err := lane.Call(t.Context(), env)
		if err != nil {
			t.Fatal(err)
		}
		defer call.Close()
	}
	if _, err := rpc.Call(t.Context(), lane, rpc.MethodSync, nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(order, []string{"one", "two", "three"}) {
		t.Errorf("processed %v before swp.sync was answered", order)
	}
}

func TestStreamReturnsItemsThenTheResult(t *testing.T) {
	both(t, open, func(t *testing.T, s profiles.Session) {
		stream, err := rpc.Open(t.Context(), s, "test.count", []byte("abc"))
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		var got strings.Builder
		for {
			item, err := stream.Recv(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got.Write(item)
		}
		if got.String() != "abc" || string(stream.Result()) != "done" {
			t.Errorf("items %q, result %q", got.String(), stream.Result())
		}
		if _, err := stream.Recv(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v, want io.EOF", err)
		}
	})
}

func TestACallThatIsGivenUpIsCancelledAtTheOtherEnd(t *testing.T) {
	started, ended := make(chan struct{}), make(chan error, 1)
	blocking := func() map[string]rpc.Method {
		return map[string]rpc.Method{"test.block": {
			Detached: func(ctx context.Context, _ *profiles.Request, _ []byte, _ func([]byte) error) ([]byte, error) {
				started <- struct{}{}
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return nil, ctx.Err()
			},
		}}
	}
	both(t, blocking, func(t *testing.T, s profiles.Session) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-started; cancel() }()
		if _, err := rpc.Call(ctx, s, "test.block", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want the context's", err)
		}
		// By RPC_CANCEL, or with the stream of the call where it has its own.
		if err := <-ended; errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the method's context ended with %v", err)
		}
		// The connection is as good as before.
		if got, err := rpc.Call(t.Context(), s, rpc.MethodEcho, []byte("on")); err != nil || string(got) != "on" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestHeldCallEndsWhenTheCallerIsGone(t *testing.T) {
	pending := make(chan *rpc.Pending, 1)
	s := connect(t, false, map[string]rpc.Method{"test.hold": {Long: true, Held: func(p *rpc.Pending, _ []byte) error {
		pending <- p
		return nil
	}}})
	stream, err := rpc.Open(t.Context(), s, "test.hold", nil)
	if err != nil {
		t.Fatal(err)
	}
	p := <-pending
	s.(*endpoint.Session).Close(profiles.OK)
	<-p.Context().Done()
	if err := p.Return(nil); !errors.Is(err, profiles.ErrFinished) {
		t.Errorf("Return: %v, want %v", err, profiles.ErrFinished)
	}
	if _, err := stream.Recv(t.Context()); err == nil {
		t.Error("the caller got an answer from a closed connection")
	}
	stream.Close()
}

// script is a peer that answers every call with the payloads given.
type script struct {
	profiles.Lane
	answers []e1.Envelope
	sent    []e1.Envelope
	id      []byte
}

func (s *script) Call(_ context.Context, env e1.Envelope) (profiles.Call, error) {
	var in rpc.Req
	if err := in.Decode(env.Payload); err != nil {
		return nil, err
	}
	s.id = in.RPCID
	return scriptCall{s}, nil
}

func (s *script) Send(_ context.Context, env e1.Envelope) error {
	s.sent = append(s.sent, env.Clone())
	return nil
}

type scriptCall struct{ s *script }

func (c scriptCall) MsgID() []byte       { return nil }
func (c scriptCall) Lane() profiles.Lane { return c.s }
func (c scriptCall) Close()              {}
func (c scriptCall) Recv(ctx context.Context) (*e1.Envelope, error) {
	if len(c.s.answers) == 0 {
		return nil, errors.New("script: nothing more")
	}
	env := c.s.answers[0]
	c.s.answers = c.s.answers[1:]
	env.Payload = bytes.ReplaceAll(env.Payload, []byte("0123456789abcdef"), c.s.id)
	return &env, ctx.Err()
}

func TestViolationsOfThePeerEndTheCall(t *testing.T) {
	id, other := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	item := func(id []byte, seq uint64, last bool) e1.Envelope {
		return e1.Envelope{MsgType: rpc.TypeStreamItem, Payload: (&rpc.StreamItem{RPCID: id, SeqNo: seq, IsTerminal: last}).Append(nil)}
	}
	resp := func(id []byte) e1.Envelope {
		return e1.Envelope{MsgType: rpc.TypeResp, Payload: (&rpc.Resp{RPCID: id}).Append(nil)}
	}
	fail := func(id []byte) e1.Envelope {
		return e1.Envelope{MsgType: rpc.TypeErr, Payload: (&rpc.Err{RPCID: id, ErrorCode: []byte("c"), ErrorMessage: []byte("m")}).Append(nil)}
	}
	for _, test := range []struct {
		name    string
		answers []e1.Envelope
		ok      bool
	}{
		{"items in order", []e1.Envelope{item(id, 1, false), item(id, 2, false), item(id, 9, true), resp(id)}, true},
		{"the same number twice", []e1.Envelope{item(id, 1, false), item(id, 1, false)}, false},
		{"a smaller number", []e1.Envelope{item(id, 2, false), item(id, 1, false)}, false},
		{"items from number 0", []e1.Envelope{item(id, 0, false), item(id, 1, true), resp(id)}, true},
		{"items from a large number", []e1.Envelope{item(id, math.MaxUint64-1, false), item(id, math.MaxUint64, true), resp(id)}, true},
		{"number 0 twice", []e1.Envelope{item(id, 0, false), item(id, 0, false)}, false},
		{"number 0 after the largest", []e1.Envelope{item(id, math.MaxUint64, false), item(id, 0, false)}, false},
		{"an item after the terminal one", []e1.Envelope{item(id, 1, true), item(id, 2, false)}, false},
		{"an item of another call", []e1.Envelope{item(other, 1, false)}, false},
		{"a result of another call", []e1.Envelope{resp(other)}, false},
		{"an error of another call", []e1.Envelope{fail(other)}, false},
		{"an item without a body", []e1.Envelope{{MsgType: rpc.TypeStreamItem}}, false},
		{"a result without a body", []e1.Envelope{{MsgType: rpc.TypeResp}}, false},
		{"an error without a body", []e1.Envelope{{MsgType: rpc.TypeErr}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			peer := &script{answers: test.answers}
			_, err := rpc.Call(t.Context(), peer, "test.method", nil)
			var fault *profiles.Error
			switch {
			case test.ok && (err != nil || len(peer.sent) != 0):
				t.Errorf("error %v, sent %v, want neither", err, peer.sent)
			case !test.ok && (!errors.As(err, &fault) || fault.Code != profiles.InvalidProfilePayload):
				t.Errorf("error %v, want InvalidProfilePayload", err)
			case !test.ok:
				var m rpc.Cancel
				if len(peer.sent) != 1 || peer.sent[0].MsgType != rpc.TypeCancel || m.Decode(peer.sent[0].Payload) != nil || !bytes.Equal(m.RPCID, peer.id) {
					t.Errorf("sent %v, want the call cancelled", peer.sent)
				}
			}
		})
	}
}

func TestALargeResultIsInTheMemoryOfItsCallUntilTheNextOne(t *testing.T) {
	for size, open := range map[int]int{1 << 10: 0, 1<<10 + 1: 1} {
		echo := new(prompt)
		calls := rpc.NewCaller(echo)
		params := bytes.Repeat([]byte{7}, size)
		for range 3 {
			result, err := calls.Call(t.Context(), "swp.echo", params)
			if err != nil || !bytes.Equal(result, params) {
				t.Fatalf("%d octets: %d came back, %v", size, len(result), err)
			}
			if echo.open != open {
				t.Errorf("%d octets: %d calls are open, want %d", size, echo.open, open)
			}
		}
		calls.Close()
		calls.Close()
		if echo.open != 0 {
			t.Errorf("%d octets: %d calls are open after Close", size, echo.open)
		}
	}
}
