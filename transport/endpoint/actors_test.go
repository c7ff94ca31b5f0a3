package endpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/internal/effort"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/vectors"
)

// FuzzActors plays programs of a hostile peer against an endpoint, in virtual
// time. A program is two octets an action: what to do, and with what. Whatever
// the peer did, the endpoint serves another peer, every frame it took ended in
// exactly one verdict, and nothing is left running when the endpoint is closed;
// a loop that is wedged shows as a deadlock of the bubble.
func FuzzActors(f *testing.F) {
	for a := range byte(actions) {
		f.Add([]byte{0, a, 1, 0, 2, a, 200})
		f.Add([]byte{1, a, 1, 0, 2, a, 200, 9, 0, a, 3})
		f.Add([]byte{a & 1, 1, 1, 2, 2, a, 1, 6, 20, 0, 3, a, 4, 6, 255})
	}
	seen := make(map[string]bool)
	for _, octets := range vectors.Frames() {
		if len(octets) > 512 || seen[string(octets)] {
			continue
		}
		if seen[string(octets)] = true; !effort.Due(len(seen), 10) {
			continue
		}
		program := []byte{0}
		for _, b := range octets {
			program = append(program, actOctet, b)
		}
		f.Add(program)
		f.Add(append([]byte{1}, program[1:]...))
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 2048 {
			t.Skip("long programs find nothing that short ones do not")
		}
		synctest.Test(t, func(t *testing.T) { newStage(t, program).play() })
	})
}

// What an actor can do.
const (
	actEcho   = iota // a request that is answered inline
	actDetach        // one that is answered by a goroutine after a while
	actHold          // one that is held and finished later, or never
	actBroken        // a good frame with one octet changed
	actHalf          // the front of a frame
	actAnswer        // an answer to a call that there may be, or not
	actPause         // time passes
	actFinish        // nothing more will be written
	actReset         // the stream is given up
	actOpen          // another stream, where there are many
	actRead          // read for a while
	actCall          // the endpoint calls the peer
	actSend          // the endpoint sends to the peer
	actRepeat        // the last frame again
	actOctet         // one raw octet
	actLarge         // a request of some KiB
	actPanic         // a request whose handler panics
	actDrain         // the endpoint begins to shut down
	actDefer         // a message that is deferred, and done or refused later
	actAfter         // one that is answered after those
	actions
)

// stage is one performance.
type stage struct {
	t       *testing.T
	program []byte
	ep      *endpoint.Endpoint
	rec     *recorder
	sess    *endpoint.Session
	conn    transport.Conn
	stream  transport.Stream
	last    []byte
	drained bool
}

func newStage(t *testing.T, program []byte) *stage {
	s := &stage{t: t, program: program, rec: newRecorder()}
	reg, err := profiles.NewRegistry(profile(s.serve))
	if err != nil {
		t.Fatal(err)
	}
	s.ep, err = endpoint.New(endpoint.Options{
		Registry: reg, Observer: s.rec,
		FrameLimit:  64 << 10,
		ErrorFrames: len(program) > 0 && program[0]&2 != 0,
		Bounds:      endpoint.Bounds{InFlight: 8, Deferred: 4, OutboundBytes: 64 << 10, InFlightBytesPerConn: 256 << 10},
	})
	if err != nil {
		t.Fatal(err)
	}
	pipe := transport.Pipe
	if len(program) > 0 && program[0]&1 != 0 {
		pipe = transport.MuxPipe
	}
	here, there := pipe()
	s.sess, s.conn = s.ep.Attach(here), there
	s.open()
	return s
}

// serve does what the first octet of the payload asks for.
func (s *stage) serve(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
	if req.Unsolicited || len(req.Payload) == 0 {
		return nil
	}
	switch req.Payload[0] {
	case 'd':
		return req.Detach(func(ctx context.Context, req *profiles.Request, w profiles.Responder) error {
			select {
			case <-time.After(time.Duration(req.Payload[1]) * time.Second):
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := w.Send(e1.Envelope{MsgType: typeAnswer, Payload: req.Payload}); err != nil {
				return err
			}
			return w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: req.Payload})
		})
	case 'h':
		req, w, err := req.Hold()
		if err != nil {
			return err
		}
		go func() {
			select {
			case <-time.After(time.Duration(req.Payload[1]) * time.Second):
				_ = w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: req.Payload})
			case <-w.Context().Done():
				w.Fail(w.Context().Err())
			}
		}()
		return nil
	case 'f':
		done, gone, wait := req.Defer(), req.Session.Context().Done(), req.Payload[1]
		go func() {
			select {
			case <-time.After(time.Duration(wait) * time.Second):
			case <-gone:
			}
			if wait%3 == 0 {
				done(profiles.Errorf(profiles.NotFound, "no"))
			}
			done(nil)
		}()
		return nil
	case 'a':
		after := req.After
		req, w, err := req.Hold()
		if err != nil {
			return err
		}
		answer := func() { _ = w.Finish(e1.Envelope{MsgType: typeAnswer, Payload: req.Payload}) }
		if !after(answer) {
			answer()
		}
		return nil
	case 'p':
		panic("as asked")
	}
	return echo(ctx, req, w)
}

func (s *stage) play() {
	ctx, cancel := context.WithCancel(context.Background())
	for p := s.program; len(p) > 2; p = p[2:] {
		s.act(ctx, p[1]%actions, p[2])
	}
	synctest.Wait()
	if !s.drained {
		s.othersAreServed()
	}
	cancel()
	_ = s.conn.Close(0)
	closed := make(chan struct{})
	go func() {
		_ = s.ep.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(time.Hour):
		s.t.Fatal("the endpoint did not close within an hour")
	}
	time.Sleep(10 * time.Minute) // handlers that were still asleep
	synctest.Wait()
	s.check()
}

func (s *stage) act(ctx context.Context, what, with byte) {
	id := string(bytes.Repeat([]byte{'a' + with%16}, 8+int(with%8)))
	switch what {
	case actEcho:
		s.send(request(id, "echo"))
	case actDetach:
		s.send(request(id, "d"+string([]byte{with})))
	case actHold:
		s.send(request(id, "h"+string([]byte{with})))
	case actDefer:
		s.send(request(id, "f"+string([]byte{with})))
	case actAfter:
		s.send(request(id, "a"))
	case actPanic:
		s.send(request(id, "p"))
	case actLarge:
		s.send(request(id, "l"+string(make([]byte, int(with)<<8))))
	case actBroken:
		b := framed(request(id, "echo"))
		b[int(with)%len(b)] ^= 1 << (with % 8)
		s.write(b)
	case actHalf:
		b := framed(request(id, "echo"))
		s.write(b[:int(with)%len(b)])
	case actAnswer:
		s.send(e1.Envelope{ProfileID: testProfile, MsgType: typeAnswer, MsgID: []byte(id), Payload: []byte("?")})
	case actPause:
		time.Sleep(time.Duration(with) * 100 * time.Millisecond)
	case actFinish:
		_ = s.stream.CloseWrite()
	case actReset:
		s.stream.Reset(uint64(with))
	case actOpen:
		s.open()
	case actRead:
		s.read(int(with) + 1)
	case actCall:
		go func() {
			ctx, cancel := context.WithTimeout(ctx, time.Duration(with)*time.Second)
			defer cancel()
			c, err := s.sess.Call(ctx, e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: []byte("call")})
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = c.Recv(ctx)
		}()
	case actSend:
		go func() {
			_ = s.sess.Send(ctx, e1.Envelope{ProfileID: testProfile, MsgType: typeRequest, Payload: make([]byte, with)})
		}()
	case actRepeat:
		s.write(s.last)
	case actOctet:
		s.write([]byte{with})
	case actDrain:
		if s.drained {
			return
		}
		s.drained = true
		go func() {
			ctx, cancel := context.WithTimeout(ctx, time.Duration(with)*time.Second)
			defer cancel()
			_ = s.ep.Shutdown(ctx)
		}()
	}
}

func (s *stage) open() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if stream, err := s.conn.Open(ctx); err == nil {
		s.stream = stream
	} else if s.stream == nil {
		s.t.Fatalf("%v: %v", err, context.Cause(s.sess.Context()))
	}
}

func (s *stage) send(env e1.Envelope) {
	s.last = framed(env)
	s.write(s.last)
}

// write writes what the endpoint takes within a second.
func (s *stage) write(b []byte) {
	_ = s.stream.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = s.stream.Write(b)
}

// read reads what is there, n times at most. What it sees is whole frames.
func (s *stage) read(n int) {
	_ = s.stream.SetReadDeadline(time.Now().Add(time.Second))
	buf := make([]byte, 4096)
	for range n {
		if _, err := s.stream.Read(buf); err != nil {
			return
		}
	}
}

// othersAreServed has a well-behaved peer make an exchange.
func (s *stage) othersAreServed() {
	here, there := transport.Pipe()
	s.ep.Attach(here)
	defer func() { _ = there.Close(0) }()
	stream, err := there.Open(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	_ = stream.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := stream.Write(framed(request("0123456789abcdef", "good"))); err != nil {
		s.t.Fatal(err)
	}
	body, err := frame.NewReader(stream, frame.Options{}).Next()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.t.Fatal("a good peer was not served within 5 s")
	}
	if err != nil || !bytes.HasSuffix(body, []byte("good")) {
		s.t.Fatalf("a good peer got %q, %v", body, err)
	}
}

// check holds the verdicts to their promise: one for each frame of a stream,
// numbered without a gap.
func (s *stage) check() {
	type stream struct{ session, lane uint64 }
	count, highest := map[stream]uint64{}, map[stream]uint64{}
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	for at := range s.rec.seen {
		on := stream{at.session, at.lane}
		count[on]++
		highest[on] = max(highest[on], at.seq)
	}
	for on, n := range count {
		if highest[on] != n {
			s.rec.faults = append(s.rec.faults, fmt.Sprintf("stream %d: %d verdicts for %d frames", on.lane, n, highest[on]))
		}
	}
	if len(s.rec.faults) > 0 {
		for _, v := range s.rec.verdicts {
			s.t.Logf("lane %d seq %d type %d %v %s %v %v", v.Lane, v.Seq, v.MsgType, v.Code, v.Detail, v.Action, v.Err)
		}
		s.t.Fatalf("%v; closed %v", s.rec.faults, s.rec.closed)
	}
	if s.rec.opened != len(s.rec.closed) {
		s.t.Fatalf("%d sessions opened, %d closed", s.rec.opened, len(s.rec.closed))
	}
	if st := s.ep.Stats(); st.Sessions != 0 || st.Handlers != 0 || st.InFlightBytes != 0 {
		s.t.Fatalf("left behind: %+v", st)
	}
}
