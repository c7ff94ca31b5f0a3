package sdlfront_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/internal/bridge/sdlfront"
	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const caller = "loopback"

// endpoint is a session to an endpoint that answers each request with itself, once wait is closed.
type endpoint struct {
	ctx  context.Context
	wait chan struct{} // nil: at once

	mu   sync.Mutex
	came int // requests
	to   sdlfront.Program
}

func (e *endpoint) Peer() *profiles.Peer                          { return &profiles.Peer{Identity: caller} }
func (e *endpoint) Context() context.Context                      { return e.ctx }
func (e *endpoint) Open(context.Context) (profiles.Lane, error)   { panic("no lane is needed") }
func (e *endpoint) Send(_ context.Context, env e1.Envelope) error { return nil }
func (e *endpoint) Call(_ context.Context, env e1.Envelope) (profiles.Call, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.came++
	return &call{e, env}, nil
}

func (e *endpoint) requests() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.came
}

type call struct {
	*endpoint
	env e1.Envelope
}

func (c *call) MsgID() []byte       { return []byte("12345678") }
func (c *call) Close()              {}
func (c *call) Lane() profiles.Lane { return nil }
func (c *call) Recv(ctx context.Context) (*e1.Envelope, error) {
	if c.wait != nil {
		select {
		case <-c.wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return &c.env, nil
}

// serving is a Front with an endpoint behind it.
func serving(t *testing.T, e *endpoint, o sdlfront.Options) *sdlfront.Front {
	t.Helper()
	e.ctx = t.Context()
	o.Open = func(_ string, to sdlfront.Program) (*sdlfront.Session, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.to = to
		return &sdlfront.Session{Session: e, End: func() {}}, nil
	}
	o.MaxBytes = func() int { return 4 << 10 }
	f := sdlfront.New(o)
	t.Cleanup(f.Close)
	return f
}

// stream is the end of a program. A pipe has no buffer.
func stream(t *testing.T, f *sdlfront.Front) net.Conn {
	t.Helper()
	here, there := net.Pipe()
	go func() { _ = f.Stream(there, caller) }()
	t.Cleanup(func() { _ = here.Close() })
	return here
}

func framed(body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func receive(t *testing.T, conn io.Reader) string {
	t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(conn, body); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func send(t *testing.T, conn io.Writer, octets []byte) {
	t.Helper()
	if _, err := conn.Write(octets); err != nil {
		t.Fatal(err)
	}
}

// over waits for the end of a connection.
func over(t *testing.T, conn io.Reader) {
	t.Helper()
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d, %v, want the end of the connection", n, err)
	}
}

// of is an envelope of a number of octets, as far as this front looks.
func of(n int) string { return `{"type":"req","x":"` + strings.Repeat("x", n-21) + `"}` }

func TestGW12TheLengthOfAnEnvelopeIsBoundedBeforeItIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget, e := memory.New(1<<20), new(endpoint)
		f := serving(t, e, sdlfront.Options{Memory: budget})
		conn := stream(t, f)
		if body := of(4 << 10); len(body) != 4<<10 {
			t.Fatal(len(body))
		}
		send(t, conn, framed(of(4<<10)))
		if got := receive(t, conn); got != of(4<<10) {
			t.Errorf("at the limit: %.100s", got)
		}
		for _, size := range []uint32{4<<10 + 1, 1 << 31, 1<<32 - 1} {
			conn := stream(t, f)
			send(t, conn, binary.BigEndian.AppendUint32(nil, size)) // and nothing after it
			if got := receive(t, conn); !strings.Contains(got, `"BAD_REQUEST"`) || !strings.Contains(got, `"max_bytes":4096`) {
				t.Errorf("%d: %s", size, got)
			}
			over(t, conn)
		}
		synctest.Wait()
		if e.requests() != 1 || budget.Used() != 0 {
			t.Errorf("%d requests, %d octets are held", e.requests(), budget.Used())
		}
	})
}

func TestGW12ASlowEnvelopeIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget, e := memory.New(1<<20), new(endpoint)
		f := serving(t, e, sdlfront.Options{Memory: budget})
		for _, part := range []int{1, 3, 4, 100} { // of the octets
			conn := stream(t, f)
			time.Sleep(time.Hour) // between two envelopes a program may be silent
			send(t, conn, framed(of(1000))[:part])
			began := time.Now()
			if got := receive(t, conn); !strings.Contains(got, `"BAD_REQUEST"`) {
				t.Errorf("%d octets: %s", part, got)
			}
			if took := time.Since(began); took < 5*time.Second || took > 6*time.Second {
				t.Errorf("%d octets: after %v", part, took)
			}
			over(t, conn)
		}
		synctest.Wait()
		if e.requests() != 0 || budget.Used() != 0 {
			t.Errorf("%d requests, %d octets are held", e.requests(), budget.Used())
		}
	})
}

func TestGW12EnvelopesThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget, e := memory.New(1<<20), &endpoint{wait: make(chan struct{})}
		f := serving(t, e, sdlfront.Options{Memory: budget, Ahead: 3})
		conn := stream(t, f)
		sent := 0
		go func() {
			for sent < 100 {
				if _, err := conn.Write(framed(of(1000))); err != nil {
					return
				}
				sent++
			}
		}()
		synctest.Wait()
		// One is being answered, three wait, and one was read that does not fit.
		if sent != 5 || e.requests() != 1 || budget.Used() > 5*1100 {
			t.Errorf("%d were read, %d went on, %d octets are held", sent, e.requests(), budget.Used())
		}
		close(e.wait)
		for range 100 {
			receive(t, conn)
		}
		synctest.Wait()
		if e.requests() != 100 || budget.Used() != 0 {
			t.Errorf("%d requests, %d octets are held", e.requests(), budget.Used())
		}
	})
}

func TestGW12StreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serving(t, new(endpoint), sdlfront.Options{Streams: 2})
		first, second := stream(t, f), stream(t, f)
		synctest.Wait()
		third := stream(t, f)
		over(t, third)
		for _, conn := range []net.Conn{first, second} {
			send(t, conn, framed(of(100)))
			receive(t, conn)
		}
		_ = first.Close()
		synctest.Wait()
		conn := stream(t, f)
		send(t, conn, framed(of(100)))
		receive(t, conn)
	})
}

func TestGW12AProgramThatDoesNotReadIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := memory.New(1 << 20)
		f := serving(t, new(endpoint), sdlfront.Options{Memory: budget})
		conn := stream(t, f)
		send(t, conn, framed(of(1000)))
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if n := f.Stats().Streams; n != 0 || budget.Used() != 0 {
			t.Errorf("%d streams, %d octets are held", n, budget.Used())
		}
	})
}

func TestGW12WithoutRoomNothingIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget, e := memory.New(8<<10), new(endpoint)
		f := serving(t, e, sdlfront.Options{Memory: budget})
		others := budget.Hold("others")
		if !others.Add(4 << 10) {
			t.Fatal("no room")
		}
		conn := stream(t, f)
		send(t, conn, framed(of(4 << 10))[:4])
		if got := receive(t, conn); !strings.Contains(got, "concurrency_limit") {
			t.Errorf("%s", got)
		}
		over(t, conn)
		others.Release()
		if e.requests() != 0 {
			t.Errorf("%d requests", e.requests())
		}
	})
}

func TestGW12ARateIsOfOneCallerAndBeforeTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(endpoint)
		f := serving(t, e, sdlfront.Options{Burst: 2, PerSecond: 1})
		h := f.Handler(sdlfront.HTTP{
			Session: func(string) (profiles.Session, error) { return e, nil },
			Caller:  func(r *http.Request) string { return r.Header.Get("Caller") },
		})
		ask := func(caller string, body io.Reader) int {
			r := httptest.NewRequest(http.MethodPost, sdlfront.Path, body)
			r.Header.Set("Caller", caller)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		body := of(200)
		for i, want := range []int{200, 200, 429} {
			if got := ask("a", strings.NewReader(body)); got != want {
				t.Errorf("%d: status %d, want %d", i, got, want)
			}
		}
		unread := bytes.NewReader([]byte(body))
		if got := ask("a", unread); got != 429 || unread.Len() != len(body) {
			t.Errorf("status %d, %d octets unread of %d", got, unread.Len(), len(body))
		}
		if got := ask("b", strings.NewReader(body)); got != 200 {
			t.Errorf("another caller: %d", got)
		}
		time.Sleep(time.Second)
		for i, want := range []int{200, 429} {
			if got := ask("a", strings.NewReader(body)); got != want {
				t.Errorf("%d, a second later: status %d, want %d", i, got, want)
			}
		}
	})
}

// A program that closes its half gets the answers that are due.
func TestAHalfClosedStreamIsAnswered(t *testing.T) {
	f := serving(t, new(endpoint), sdlfront.Options{})
	ln, err := net.Listen("unix", t.TempDir()+"/s") //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	go func() {
		if conn, err := ln.Accept(); err == nil {
			_ = f.Stream(conn, caller)
		}
	}()
	conn, err := net.Dial("unix", ln.Addr().String()) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for range 3 {
		send(t, conn, framed(of(100)))
	}
	_ = conn.(*net.UnixConn).CloseWrite() //nolint:errcheck // it is one
	for range 3 {
		receive(t, conn)
	}
	over(t, conn)
}

func TestADrainAnswersWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{wait: make(chan struct{})}
		f := serving(t, e, sdlfront.Options{})
		conn := stream(t, f)
		send(t, conn, framed(of(100)))
		synctest.Wait()
		f.Drain()
		over(t, stream(t, f))
		close(e.wait)
		receive(t, conn)
		over(t, conn)
	})
}
