package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

func TestPlaintextIsRefusedBeyondLoopback(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:7777", "example.org:7777", "localhost.example.org:0"} {
		if ln, err := ListenLoopback(addr, PlainOptions{}); !errors.Is(err, ErrNotLoopback) {
			t.Errorf("listen on %s: %v, %v", addr, ln, err)
		}
		if c, err := DialLoopback(t.Context(), addr); !errors.Is(err, ErrNotLoopback) {
			t.Errorf("dial %s: %v, %v", addr, c, err)
		}
	}
}

func TestPlaintextOnLoopback(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "127.0.0.77:0", "localhost:0"} {
		ln, err := ListenLoopback(addr, PlainOptions{})
		if err != nil {
			t.Fatal(err)
		}
		client, err := DialLoopback(t.Context(), ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		server, err := ln.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []Conn{client, server} {
			if p := c.Peer(); p.Identity != LoopbackIdentity || p.Transport != "tcp" {
				t.Errorf("peer %+v", p)
			}
		}
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
		if _, err := ln.Accept(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept after close: %v", err)
		}
		// What was accepted lives on.
		s, _ := client.Open(t.Context())
		if _, err := s.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		_ = client.Close(0)
		r, _ := server.Accept(t.Context())
		if got, err := io.ReadAll(r); string(got) != "x" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		_ = server.Close(0)
	}
}

// fakeListener yields connections from a channel and then errors.
type fakeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	fail   int // how many accepts fail first
}

func (l *fakeListener) Accept() (net.Conn, error) {
	if l.fail > 0 {
		l.fail--
		return nil, errors.New("accept: too many open files")
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *fakeListener) Close() error   { close(l.closed); return nil }
func (l *fakeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

type fakeConn struct {
	net.Conn
	remote net.Addr
}

func (c fakeConn) RemoteAddr() net.Addr { return c.remote }

func TestPlaintextPeersBeyondLoopbackAreRefused(t *testing.T) {
	events := make(chan SecurityEvent, 1)
	inner := &fakeListener{conns: make(chan net.Conn), closed: make(chan struct{}), fail: 2}
	ln := servePlain(inner, PlainOptions{OnSecurity: func(e SecurityEvent) { events <- e }})
	defer ln.Close()

	here, there := net.Pipe()
	inner.conns <- fakeConn{here, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9}}
	if e := <-events; e.Reason != ReasonPlaintext || e.Addr != "192.0.2.1:9" || !errors.Is(e.Err, ErrNotLoopback) {
		t.Errorf("event %+v", e)
	}
	if _, err := there.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("not closed: %v", err)
	}

	here, there = net.Pipe()
	defer there.Close()
	inner.conns <- fakeConn{here, &net.TCPAddr{IP: net.IPv6loopback, Port: 9}}
	c, err := ln.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close(0)
}

func TestQueueClosesWhatNobodyTakes(t *testing.T) {
	q := NewQueue()
	a, b := Pipe()
	q.Put(a, time.Nanosecond)
	<-b.Context().Done()

	a, b = Pipe()
	put := make(chan struct{})
	go func() {
		q.Put(a, time.Hour)
		close(put)
	}()
	q.Close()
	q.Close()
	<-put
	<-b.Context().Done()
	if _, err := q.Accept(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewQueue().Accept(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("accept: %v", err)
	}
}

func TestADeadlineOfAConnectionThatHasEndedFailsWithTheReason(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	c := NewNetConn(here, &Peer{})
	if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	_ = c.Close(7)
	for name, set := range map[string]func(time.Time) error{"read": c.SetReadDeadline, "write": c.SetWriteDeadline} {
		if why, ok := errors.AsType[*CloseError](set(time.Now())); !ok || why.Code != 7 {
			t.Errorf("%s: %v", name, set(time.Now()))
		}
	}
}
