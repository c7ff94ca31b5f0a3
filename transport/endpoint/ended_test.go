package endpoint_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// cutConn is a multiplexed connection whose streams end inside a frame, for the reason
// why, before the connection says that it has ended, as those of QUIC may.
type cutConn struct {
	transport.Conn
	why error
}

func (c *cutConn) Open(ctx context.Context) (transport.Stream, error) {
	s, err := c.Conn.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &cutStream{s, strings.NewReader("\x00\x00\x00\x20\x01"), c.why}, nil
}

type cutStream struct {
	transport.Stream
	front io.Reader
	why   error
}

func (s *cutStream) Read(p []byte) (int, error) {
	if n, err := s.front.Read(p); err == nil {
		return n, nil
	}
	return 0, s.why
}

// TestAConnectionThatEndsInsideAFrameRefusesNothing wants a call to see that the session
// is over: a refusal would be final.
func TestAConnectionThatEndsInsideAFrameRefusesNothing(t *testing.T) {
	for name, why := range map[string]error{
		"closed": &transport.CloseError{Remote: true},
		"broken": &transport.BrokenError{Err: errors.New("silent for too long")},
	} {
		t.Run(name, func(t *testing.T) {
			ep, rec := newEndpoint(t, endpoint.Options{}, profile(echo))
			here, there := transport.MuxPipe()
			defer func() { _ = there.Close(0) }()
			session := ep.Attach(&cutConn{here, why})
			call, err := session.Call(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: []byte("x")})
			if err == nil {
				_, err = call.Recv(t.Context())
				call.Close()
			}
			if err == nil || errors.As(err, new(*profiles.Error)) {
				t.Errorf("the call failed with %v, want the end of the session", err)
			}
			rec.await(t, "the session is over", func(r *recorder) bool { return len(r.closed) > 0 })
			if n := rec.count(); n > 0 {
				t.Errorf("%d verdicts over octets that nobody sent wrongly, the first %+v", n, rec.verdict(t, 1))
			}
		})
	}
}

// A peer whose own side stalls resets the stream in the middle of its answer: that answer is
// lost, and nothing in it was wrong.
func TestAnAnswerThatIsResetInsideAFrameIsLostAndNotWrong(t *testing.T) {
	ep, rec := newEndpoint(t, endpoint.Options{}, profile(echo))
	here, there := transport.MuxPipe()
	defer func() { _ = there.Close(0) }()
	reset := &transport.CloseError{Remote: true, Stream: true, Code: uint64(profiles.Internal)}
	session := ep.Attach(&cutConn{here, reset})
	for range 2 * 16 { // more than the error budget: none of it is charged
		call, err := session.Call(t.Context(), e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: []byte("x")})
		if err == nil { // the reset may come before the call is made
			_, err = call.Recv(t.Context())
			call.Close()
		}
		if !errors.Is(err, reset) {
			t.Errorf("the call failed with %v, want the reset", err)
		}
	}
	if n := rec.count(); n > 0 {
		t.Errorf("%d verdicts, the first %+v", n, rec.verdict(t, 1))
	}
	if session.Context().Err() != nil {
		t.Error("the session was closed")
	}
}

// The first reason stays: the end of the reading comes after the reset.
func TestACallOnAStreamThatWasResetFailsWithTheReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ep, _ := newEndpoint(t, endpoint.Options{}, profile(echo))
		here, there := transport.MuxPipe()
		defer func() { _ = there.Close(0) }()
		reset := &transport.CloseError{Remote: true, Stream: true, Code: uint64(profiles.Internal)}
		lane, err := ep.Attach(&cutConn{here, reset}).Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		call, err := lane.Call(t.Context(), request("", "x"))
		if err == nil {
			_, err = call.Recv(t.Context())
			call.Close()
		}
		if !errors.Is(err, reset) {
			t.Errorf("the call failed with %v, want the reset", err)
		}
		_ = lane.Close()
	})
}

// The other end refuses a frame by its length while this end still writes it. The calls of
// the stream get the answers that were sent before, or the code.
func TestAFrameThatIsRefusedWhileItIsWrittenEndsTheCallsOfItsStreamWithTheCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := transport.MuxPipe()
		ep, _ := newEndpoint(t, endpoint.Options{}, profile(echo))
		session := ep.Attach(&lateConn{here})
		lane, err := session.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = lane.Close() }()
		var calls [2]profiles.Call
		for i, payload := range []string{"answered", "open"} {
			if calls[i], err = lane.Call(t.Context(), request("", payload)); err != nil {
				t.Fatal(err)
			}
			defer calls[i].Close()
		}
		stream, err := there.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		peer := &rig{conn: there}
		peer.on(stream)
		answer := peer.recv(t)
		answer.MsgType = typeAnswer
		peer.recv(t)
		written := make(chan error, 1)
		go func() {
			large, err := lane.Call(t.Context(), request("", strings.Repeat("x", 4<<20)))
			if err == nil {
				_, err = large.Recv(t.Context())
				large.Close()
			}
			written <- err
		}()
		var length [4]byte
		if _, err := io.ReadFull(stream, length[:]); err != nil {
			t.Fatal(err)
		}
		peer.send(t, answer)
		there.(transport.Concluder).Conclude(stream, uint64(profiles.InvalidFrame))
		for which, err := range map[string]error{"large": <-written, "open": last(calls[1].Recv(t.Context()))} {
			var closed *transport.CloseError
			if !errors.As(err, &closed) || !closed.Remote || closed.Code != uint64(profiles.InvalidFrame) {
				t.Errorf("the %s call ends with %v, want the code of the other end", which, err)
			}
		}
		if env, err := calls[0].Recv(t.Context()); err != nil || string(env.Payload) != "answered" {
			t.Errorf("the call that was answered ends with %v, %v", env, err)
		}
	})
}

func last(_ *e1.Envelope, err error) error { return err }

// lateConn is a connection on which nothing is read until the peer has ended a stream, and
// its writer has seen that.
type lateConn struct{ transport.Conn }

func (c *lateConn) Open(ctx context.Context) (transport.Stream, error) {
	s, err := c.Conn.Open(ctx)
	return &lateStream{Stream: s, ended: make(chan struct{})}, err
}

type lateStream struct {
	transport.Stream
	ended chan struct{}
	once  sync.Once
}

func (s *lateStream) Write(p []byte) (int, error) {
	n, err := s.Stream.Write(p)
	if err != nil {
		// In virtual time: when the writer has done what it does about the error.
		s.once.Do(func() { time.AfterFunc(time.Millisecond, func() { close(s.ended) }) })
	}
	return n, err
}

func (s *lateStream) Read(p []byte) (int, error) {
	<-s.ended
	return s.Stream.Read(p)
}

// The peer still gets its answer, but a caller whose call fails, and that makes the next one at once, must
// find another session.
func TestASessionOnWhichNoAnswerCanArriveSaysSoBeforeItsCallsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		ep, _ := newEndpoint(t, endpoint.Options{}, profile(slowEcho(goOn)))
		here, there := transport.Pipe()
		defer func() { _ = there.Close(0) }()
		s := ep.Attach(here)
		peer, err := there.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := peer.Write(framed(request("the-peer-waits--", "x"))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		call, err := s.Call(t.Context(), request("", "y"))
		if err != nil {
			t.Fatal(err)
		}
		defer call.Close()
		go func() {
			synctest.Wait()
			_ = peer.CloseWrite()
		}()
		if _, err := call.Recv(t.Context()); !errors.Is(err, endpoint.ErrNoAnswer) {
			t.Fatalf("the call failed with %v", err)
		}
		if err := context.Cause(s.Leaving()); !errors.Is(err, endpoint.ErrNoAnswer) {
			t.Errorf("Leaving has ended with %v", err)
		}
		if s.Context().Err() != nil {
			t.Error("the session has ended before the peer had its answer")
		}
		close(goOn)
	})
}
