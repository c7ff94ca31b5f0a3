package tlsconn_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/tlsconn"
	"github.com/slimwire/swp/transport/transporttest"
)

// proxied connects a client to s through a proxy.
func proxied(t *testing.T, s *server) (*transporttest.Proxy, *transporttest.Raw, *transporttest.Raw) {
	t.Helper()
	p := transporttest.NewProxy(t, s.addr())
	c, err := tlsconn.Dial(t.Context(), p.Addr(), s.ca.Policy(t, transporttest.Client), tlsconn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(0) })
	return p, s.accept(t), transporttest.NewRaw(t, c)
}

func TestTL09OneFlippedBitEndsTheConnection(t *testing.T) {
	for _, octet := range []int{0, 1, 2, 5, 9, -1} {
		t.Run(fmt.Sprint("octet ", octet), func(t *testing.T) {
			s := listen(t, tlsconn.Options{})
			p, server, client := proxied(t, s)
			client.WriteFrame([]byte("good"))
			if got := server.ReadFrame(); string(got) != "good" {
				t.Fatalf("read %q", got)
			}
			p.FlipNext(octet)
			client.WriteFrame([]byte("damaged"))
			if err := server.ExpectEnd(); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("ended with %v", err)
			}
			<-server.Stream.Context().Done()
			if e := s.event(t, transport.ReasonIntegrity); e.Identity != transporttest.Client || e.Transport != "tls" {
				t.Errorf("event %+v", e)
			}
			if _, err := server.Stream.Read(make([]byte, 1)); err == nil {
				t.Error("read after the end")
			}
			if n := len(s.events); n != 0 {
				t.Errorf("%d more events", n)
			}
		})
	}
}

func TestTL09LengthOfARecordDamaged(t *testing.T) {
	for _, octet := range []int{3, 4} { // waits for what was never sent, and finds the next record instead
		s := listen(t, tlsconn.Options{})
		p, server, client := proxied(t, s)
		p.FlipNext(octet)
		client.WriteFrame([]byte("damaged"))
		client.WriteFrame(make([]byte, 1024))
		if err := server.ExpectEnd(); errors.Is(err, io.EOF) {
			t.Errorf("ended with %v", err)
		}
		s.event(t, transport.ReasonIntegrity)
	}
}

func TestTL09EndWithoutCloseNotifyIsTold(t *testing.T) {
	for name, sent := range map[string][]byte{
		"between frames": {0, 0, 0, 1, 9},
		"in a frame":     {0, 0, 0, 9, 9},
	} {
		t.Run(name, func(t *testing.T) {
			s := listen(t, tlsconn.Options{})
			p, server, client := proxied(t, s)
			client.Write(sent)
			buf := make([]byte, len(sent))
			if _, err := io.ReadFull(server.Stream, buf); err != nil || buf[4] != 9 {
				t.Fatalf("lost what came before: %x, %v", buf, err)
			}
			p.Cut()
			if err := server.ExpectEnd(); err == io.EOF || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("ended with %v", err)
			}
			<-server.Conn.Context().Done()
			if err := context.Cause(server.Conn.Context()); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("cause %v", err)
			}
			if n := len(s.events); n != 0 {
				t.Errorf("%d events", n)
			}
		})
	}
}

func TestOrderlyEnds(t *testing.T) {
	s := listen(t, tlsconn.Options{})
	t.Run("Close is close_notify", func(t *testing.T) {
		server, client := s.serves(t)
		r := transporttest.NewRaw(t, server)
		transporttest.NewRaw(t, client).Write([]byte("x"))
		if err := client.Close(0); err != nil {
			t.Error(err)
		}
		if got, err := io.ReadAll(r.Stream); string(got) != "x" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		if err := context.Cause(client.Context()); !isCloseError(err, 0, false) {
			t.Errorf("cause %v", err)
		}
	})
	t.Run("half close", func(t *testing.T) {
		server, client := s.serves(t)
		a, b := transporttest.NewRaw(t, client), transporttest.NewRaw(t, server)
		a.CloseWrite()
		if err := b.ExpectEnd(); err != io.EOF {
			t.Fatal(err)
		}
		b.WriteFrame([]byte("answer"))
		if got := a.ReadFrame(); string(got) != "answer" {
			t.Errorf("read %q", got)
		}
		b.CloseWrite()
		<-server.Context().Done()
		if err := a.ExpectEnd(); err != io.EOF {
			t.Error(err)
		}
		<-client.Context().Done()
		if err := context.Cause(client.Context()); !isCloseError(err, 0, true) {
			t.Errorf("cause %v", err)
		}
	})
	t.Run("Reset ends a pending Read", func(t *testing.T) {
		server, client := s.serves(t)
		st, _ := server.Accept(t.Context())
		got := make(chan error)
		go func() {
			_, err := st.Read(make([]byte, 1))
			got <- err
		}()
		st.Reset(5)
		if err := <-got; !isCloseError(err, 5, false) {
			t.Errorf("read: %v", err)
		}
		_ = client.Close(0)
	})
	if n := len(s.events); n != 0 {
		t.Errorf("%d events", n)
	}
}

// A peer that does not read cannot keep Close waiting for the five seconds
// that crypto/tls would give to close_notify.
func TestCloseDoesNotWaitForAPeerThatDoesNotRead(t *testing.T) {
	s := listen(t, tlsconn.Options{})
	server, _ := s.serves(t)
	st, _ := server.Open(t.Context())
	_ = st.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
	for {
		if _, err := st.Write(make([]byte, 1<<20)); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			break
		}
	}
	start := time.Now()
	_ = server.Close(0)
	if d := time.Since(start); d > transporttest.Patience {
		t.Errorf("Close took %v", d)
	}
}

func TestReadDeadlineLeavesTheConnectionUsable(t *testing.T) {
	s := listen(t, tlsconn.Options{})
	server, client := s.serves(t)
	st, _ := server.Accept(t.Context())
	_ = st.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := st.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	if server.Context().Err() != nil {
		t.Fatal("ended by a deadline")
	}
	_ = st.SetReadDeadline(time.Time{})
	transporttest.NewRaw(t, client).WriteFrame([]byte("late"))
	if got := transporttest.RawOn(t, server, st).ReadFrame(); string(got) != "late" {
		t.Errorf("read %q", got)
	}
}

func TestDiallerIsToldThatTheServerRefusedIt(t *testing.T) {
	s := listen(t, tlsconn.Options{})
	events := make(chan transport.SecurityEvent, 1)
	stranger := transporttest.PolicyOf(transporttest.NewCA(t).Issue(t, transporttest.Named(transporttest.Client)), s.ca.Pool())
	c, err := tlsconn.Dial(t.Context(), s.addr(), stranger, tlsconn.Options{OnSecurity: func(e transport.SecurityEvent) { events <- e }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(0)
	if err := transporttest.NewRaw(t, c).ExpectEnd(); err == io.EOF {
		t.Error("orderly end")
	}
	if e := <-events; e.Reason != transport.ReasonDistrusted || e.Identity != transporttest.Server {
		t.Errorf("event %+v", e)
	}
	if e := s.event(t, transport.ReasonUntrusted); e.Identity != transporttest.Client {
		t.Errorf("event %+v", e)
	}
}

func TestCloseOfAListenerEndsHandshakesAndLeavesConnections(t *testing.T) {
	s := listen(t, tlsconn.Options{HandshakeTimeout: time.Minute})
	server, client := s.serves(t)
	silent := dialTCP(t, s.addr())
	_, _ = silent.Write(clientHello(t))
	if _, err := silent.Read(make([]byte, 1)); err != nil { // its handshake is under way
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Accept(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v", err)
	}
	_ = silent.SetReadDeadline(time.Now().Add(transporttest.Patience))
	if _, err := io.ReadAll(silent); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("handshake not ended")
	}
	if n := len(s.events); n != 0 {
		t.Errorf("%d events", n)
	}
	transporttest.Streams(t, client, server)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other := listen(t, tlsconn.Options{})
	if _, err := other.Accept(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("accept: %v", err)
	}
}

func TestDialObeysItsContext(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // accepts and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	policy := transporttest.NewCA(t).Policy(t, transporttest.Client)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := tlsconn.Dial(ctx, ln.Addr().String(), policy, tlsconn.Options{}); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) { // the latter while TCP connects
		t.Errorf("dial: %v", err)
	}
	if _, err := tlsconn.Dial(t.Context(), ln.Addr().String(), policy, tlsconn.Options{HandshakeTimeout: 20 * time.Millisecond}); transport.ReasonOf(err) != transport.ReasonTimeout {
		t.Errorf("dial: %v", err)
	}
	if _, err := tlsconn.Dial(t.Context(), "no port", policy, tlsconn.Options{}); err == nil {
		t.Error("dialled an address without port")
	}
}

func isCloseError(err error, code uint64, remote bool) bool {
	var c *transport.CloseError
	return errors.As(err, &c) && c.Code == code && c.Remote == remote
}

// crypto/tls allocates once for each record that it reads; this package adds
// nothing to that.
func TestReadAndWriteAllocateNoMoreThanTLS(t *testing.T) {
	s := listen(t, tlsconn.Options{})
	measure := func(out io.Writer, in io.Reader) float64 {
		buf, got := make([]byte, 64), make([]byte, 64)
		var before, after runtime.MemStats
		const rounds = 2000
		runtime.ReadMemStats(&before)
		for range rounds {
			if _, err := out.Write(buf); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(in, got); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		return float64(after.Mallocs-before.Mallocs) / rounds
	}
	server, client := s.serves(t)
	out, _ := client.Open(t.Context())
	in, _ := server.Accept(t.Context())
	ours := measure(out, in)

	ln, err := tls.Listen("tcp", "127.0.0.1:0", s.ca.Policy(t, transporttest.Server).Server())
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	bare := tls.Client(dialTCP(t, ln.Addr().String()), s.ca.Policy(t, transporttest.Client).Client("127.0.0.1"))
	there, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	shaken := make(chan error)
	go func() { shaken <- there.(*tls.Conn).Handshake() }()
	if err := errors.Join(bare.HandshakeContext(t.Context()), <-shaken); err != nil {
		t.Fatal(err)
	}
	theirs := measure(bare, there)
	t.Logf("%.2f allocations a round, crypto/tls alone %.2f", ours, theirs)
	if ours > theirs+0.5 {
		t.Errorf("%.2f allocations a round, crypto/tls alone %.2f", ours, theirs)
	}
}
