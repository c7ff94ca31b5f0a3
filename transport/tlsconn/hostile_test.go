package tlsconn_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/tlsconn"
	"github.com/slimwire/swp/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a listener that shows everything it tells.
type server struct {
	*tlsconn.Listener
	ca     *transporttest.CA
	events chan transport.SecurityEvent
}

func listen(t *testing.T, opts tlsconn.Options) *server {
	t.Helper()
	s := &server{ca: transporttest.NewCA(t), events: make(chan transport.SecurityEvent, 4096)}
	opts.OnSecurity = func(e transport.SecurityEvent) { s.events <- e }
	ln, err := tlsconn.Listen("127.0.0.1:0", s.ca.Policy(t, transporttest.Server), opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Listener = ln
	t.Cleanup(func() { _ = ln.Close() })
	return s
}

func (s *server) addr() string { return s.Addr().String() }

func (s *server) event(t *testing.T, reason string) transport.SecurityEvent {
	t.Helper()
	select {
	case e := <-s.events:
		if e.Reason != reason {
			t.Errorf("event %+v, want reason %s", e, reason)
		}
		return e
	case <-time.After(transporttest.Patience):
		t.Fatalf("no event; want reason %s", reason)
	}
	return transport.SecurityEvent{}
}

func (s *server) serves(t *testing.T) (server, client transport.Conn) {
	t.Helper()
	return transporttest.Connect(t, s.Listener, s.ca.Policy(t, transporttest.Client))
}

func (s *server) accept(t *testing.T) *transporttest.Raw {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
	defer cancel()
	c, err := s.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(0) })
	return transporttest.NewRaw(t, c)
}

func dialTCP(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestTL02WhatIsNotSWPOverTLS13IsRefused(t *testing.T) {
	random := make([]byte, 4096)
	_, _ = rand.Read(random)
	for name, c := range map[string]struct {
		octets []byte
	}{
		"HTTP":         {[]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")},
		"SSH":          {[]byte("SSH-2.0-OpenSSH_9.9\r\n")},
		"random":       {random},
		"zeros":        {make([]byte, 4096)},
		"bare frame":   {[]byte{0, 0, 0, 1, 0}},
		"SSLv2 hello":  {[]byte{0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10, 1, 0, 0x80}},
		"nothing, FIN": {nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := listen(t, tlsconn.Options{})
			conn := dialTCP(t, s.addr())
			_, _ = conn.Write(c.octets)
			_ = conn.(*net.TCPConn).CloseWrite()
			_ = conn.SetReadDeadline(time.Now().Add(transporttest.Patience))
			got, err := io.ReadAll(conn)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("not closed")
			}
			if len(got) > 0 && (got[0] != typeAlert || len(got) != 7) {
				t.Errorf("answered %x, which is not one alert", got)
			}
			s.event(t, transport.ReasonHandshake)
			s.serves(t)
		})
	}
}

func TestTL02DowngradesAreRefused(t *testing.T) {
	for name, edit := range map[string]func(*tls.Config){
		"only TLS 1.2": func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 },
		"only TLS 1.0": func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS10 },
		"no ALPN":      func(c *tls.Config) { c.NextProtos = nil },
		"foreign ALPN": func(c *tls.Config) { c.NextProtos = []string{"h2", "http/1.1"} },
		"next version": func(c *tls.Config) { c.NextProtos = []string{"swp/2"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := listen(t, tlsconn.Options{})
			config := s.ca.Policy(t, transporttest.Client).Client("127.0.0.1")
			config.VerifyConnection = nil // a client that would take anything
			edit(config)
			conn := tls.Client(dialTCP(t, s.addr()), config)
			_ = conn.SetDeadline(time.Now().Add(transporttest.Patience))
			n, err := conn.Read(make([]byte, 1))
			if n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("read %d octets, %v", n, err)
			}
			e := s.event(t, transport.ReasonDowngrade)
			if config.MaxVersion != tls.VersionTLS13 {
				s.serves(t)
				return
			}
			// Who speaks another protocol is told so, and the log says it.
			if !strings.Contains(err.Error(), "no application protocol") || !strings.Contains(e.Err.Error(), "application protocol") {
				t.Errorf("the peer is told %q, the log %q", err, e.Err)
			}
			s.serves(t)
		})
		t.Run("server with "+name, func(t *testing.T) {
			ca := transporttest.NewCA(t)
			config := ca.Policy(t, transporttest.Server).Server()
			config.VerifyConnection = nil
			edit(config)
			ln, err := tls.Listen("tcp", "127.0.0.1:0", config)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				if c, err := ln.Accept(); err == nil {
					_ = c.(*tls.Conn).Handshake()
					_ = c.Close()
				}
			}()
			_, err = tlsconn.Dial(t.Context(), ln.Addr().String(), ca.Policy(t, transporttest.Client), tlsconn.Options{})
			if err == nil || transport.ReasonOf(err) != transport.ReasonDowngrade {
				t.Errorf("dial: %v", err)
			}
			_ = ln.Close()
			<-done
		})
	}
}

func TestTL04CertificateMessageIsNotReadToItsEnd(t *testing.T) {
	s := listen(t, tlsconn.Options{})
	cert := s.ca.Issue(t, transporttest.Named(transporttest.Client))
	for range 250 {
		cert.Certificate = append(cert.Certificate, make([]byte, 1000))
	}
	config := transporttest.PolicyOf(cert, s.ca.Pool()).Client("127.0.0.1")
	conn := tls.Client(dialTCP(t, s.addr()), config)
	_ = conn.SetDeadline(time.Now().Add(transporttest.Patience))
	_, err := conn.Read(make([]byte, 1))
	if err == nil {
		t.Error("accepted")
	}
	e := s.event(t, transport.ReasonHandshake)
	if text := e.Err.Error(); text != "tlsconn: more than 65536 octets before the end of the handshake" {
		t.Errorf("event %q", text)
	}
	s.serves(t)
}

// That a good peer is served meanwhile is TestSlowHandshakesDelayNobody: here
// the deadline is too short for one on a busy machine.
func TestTL05SilentAndSlowPeersAreGoneAtTheDeadline(t *testing.T) {
	hello := clientHello(t)
	for name, drip := range map[string]func(net.Conn){
		"silent":             func(net.Conn) {},
		"half a ClientHello": func(c net.Conn) { _, _ = c.Write(hello[:len(hello)/2]) },
		"one octet at a time": func(c net.Conn) {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for i := range hello[:len(hello)-1] {
				if _, err := c.Write(hello[i : i+1]); err != nil {
					return
				}
				<-tick.C
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := listen(t, tlsconn.Options{HandshakeTimeout: 200 * time.Millisecond, Handshakes: 1})
			start := time.Now()
			conn := dialTCP(t, s.addr())
			done := make(chan struct{})
			go func() {
				defer close(done)
				drip(conn)
			}()
			_ = conn.SetReadDeadline(time.Now().Add(transporttest.Patience))
			if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("not closed: %v", err)
			}
			if d := time.Since(start); d < 200*time.Millisecond {
				t.Errorf("closed after %v", d)
			}
			s.event(t, transport.ReasonTimeout)
			<-done
		})
	}
}

// clientHello is what an honest client sends first.
func clientHello(t *testing.T) []byte {
	t.Helper()
	here, there := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(here, transporttest.NewCA(t).Policy(t, transporttest.Client).Client("h")).Handshake()
	}()
	buf := make([]byte, 4096)
	n, err := there.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	_ = there.Close()
	<-done
	return buf[:n]
}

func TestTL05OldestUnauthenticatedConnectionIsEvicted(t *testing.T) {
	const places = 1024 // the default
	s := listen(t, tlsconn.Options{HandshakeTimeout: time.Minute})
	_, before := s.serves(t) // authenticated: takes no place
	var silent []net.Conn
	for range places {
		silent = append(silent, dialTCP(t, s.addr()))
	}
	const more = 3
	for range more {
		dialTCP(t, s.addr())
	}
	for i := range more {
		if e := s.event(t, transport.ReasonEvicted); e.Addr != silent[i].LocalAddr().String() {
			t.Errorf("evicted %s, want %s", e.Addr, silent[i].LocalAddr())
		}
		_ = silent[i].SetReadDeadline(time.Now().Add(transporttest.Patience))
		if _, err := silent[i].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("evicted connection %d is not closed: %v", i, err)
		}
	}
	// A good peer is served while all places are taken, and costs one more.
	s.serves(t)
	s.event(t, transport.ReasonEvicted)
	// It gave its place back: the next one evicts nobody.
	dialTCP(t, s.addr())
	s.serves(t)
	s.event(t, transport.ReasonEvicted) // the good peer's, not the one before it
	if n := len(s.events); n != 0 {
		t.Errorf("%d more events", n)
	}
	if before.Context().Err() != nil {
		t.Error("an authenticated connection was evicted")
	}
}

func TestSlowHandshakesDelayNobody(t *testing.T) {
	s := listen(t, tlsconn.Options{HandshakeTimeout: time.Minute, Handshakes: 1})
	hello := clientHello(t)
	for i := range 200 {
		c := dialTCP(t, s.addr())
		if i%2 == 0 {
			_, _ = c.Write(hello) // holds a slot while it is answered, and then never again
		}
	}
	s.serves(t)
	if n := len(s.events); n != 0 {
		t.Errorf("%d events", n)
	}
}

func TestTL07FloodsOfEmptyRecordsEndTheConnection(t *testing.T) {
	for name, flood := range map[string]func(*forger) []byte{
		"40 KeyUpdates": func(f *forger) []byte {
			var b []byte
			for range 40 {
				b = append(b, f.update()...)
			}
			return b
		},
		"40 KeyUpdates in one record": func(f *forger) []byte {
			return f.record(typeHandshake, bytes.Repeat(keyUpdate, 40))
		},
		"40 empty records": func(f *forger) []byte {
			var b []byte
			for range 40 {
				b = append(b, f.record(typeData, nil)...)
			}
			return b
		},
		"half a handshake message, then data": func(f *forger) []byte {
			return append(f.record(typeHandshake, keyUpdate[:3]), f.record(typeData, []byte("x"))...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := listen(t, tlsconn.Options{})
			f := newForger(t, s.addr(), s.ca.Policy(t, transporttest.Client))
			raw := s.accept(t)
			_, _ = f.tcp.Write(flood(f))
			if err := raw.ExpectEnd(); err == io.EOF {
				t.Errorf("orderly end")
			}
			<-raw.Conn.Context().Done()
			if e := s.event(t, transport.ReasonIntegrity); e.Identity != transporttest.Client {
				t.Errorf("event %+v", e)
			}
			s.serves(t)
		})
	}
}

func TestTL07AFewKeyUpdatesAndOneOctetRecordsAreFine(t *testing.T) {
	s := listen(t, tlsconn.Options{})
	f := newForger(t, s.addr(), s.ca.Policy(t, transporttest.Client))
	raw := s.accept(t)
	want := bytes.Repeat([]byte("0123456789"), 20)
	var b []byte
	for i := range want {
		b = append(b, f.update()...)
		b = append(b, f.record(typeData, want[i:i+1])...)
	}
	_, _ = f.tcp.Write(append(b, f.record(typeAlert, []byte{1, 0})...))
	got, err := io.ReadAll(raw.Stream)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestTL08NothingIsNegotiatedAfterTheHandshake(t *testing.T) {
	for name, message := range map[string][]byte{
		"NewSessionTicket from a client": newSessionTicket,
		"post-handshake authentication":  certificateWish,
		"renegotiation":                  clientHello(t)[5:],
	} {
		t.Run(name, func(t *testing.T) {
			s := listen(t, tlsconn.Options{})
			f := newForger(t, s.addr(), s.ca.Policy(t, transporttest.Client))
			raw := s.accept(t)
			_, _ = f.tcp.Write(f.record(typeHandshake, message))
			if err := raw.ExpectEnd(); err == io.EOF {
				t.Error("orderly end")
			}
			s.event(t, transport.ReasonIntegrity)
			s.serves(t)
		})
	}
}

type ticketCounter struct{ puts int }

func (c *ticketCounter) Get(string) (*tls.ClientSessionState, bool) { return nil, false }
func (c *ticketCounter) Put(string, *tls.ClientSessionState)        { c.puts++ }

func TestTL08NoTicketIsOfferedAndEarlyDataIsNotRead(t *testing.T) {
	s := listen(t, tlsconn.Options{})
	cache := new(ticketCounter)
	config := s.ca.Policy(t, transporttest.Client).Client("127.0.0.1")
	config.SessionTicketsDisabled = false
	config.ClientSessionCache = cache
	conn := tls.Client(dialTCP(t, s.addr()), config)
	if err := conn.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw := s.accept(t)
	raw.Write([]byte("x"))
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if cache.puts != 0 {
		t.Errorf("%d tickets", cache.puts)
	}
	_ = conn.Close()

	// Data behind the ClientHello of a client that never finishes.
	early := dialTCP(t, s.addr())
	_, _ = early.Write(append(clientHello(t), typeData, 3, 3, 0, 5, 0, 0, 0, 1, 0))
	s.event(t, transport.ReasonIntegrity) // it is not what the handshake keys can open
	s.serves(t)
}

func TestTL25APeerThatDoesNotTrustThisEndpointIsNamed(t *testing.T) {
	t.Run("crypto/tls, which encrypts its alert", func(t *testing.T) {
		s := listen(t, tlsconn.Options{})
		policy := transporttest.PolicyOf(s.ca.Issue(t, transporttest.Named(transporttest.Client)), transporttest.NewCA(t).Pool())
		if _, err := tlsconn.Dial(t.Context(), s.addr(), policy, tlsconn.Options{}); err == nil {
			t.Error("the client trusts a stranger")
		}
		s.event(t, transport.ReasonDistrusted)
		s.serves(t)
	})
	for name, c := range map[string]struct {
		records []byte // behind a ClientHello
		reason  string
	}{
		"OpenSSL, which does not":    {[]byte{typeAlert, 3, 3, 0, 2, 2, 48}, transport.ReasonDistrusted},
		"behind a change of cipher":  {[]byte{20, 3, 3, 0, 1, 1, typeAlert, 3, 3, 0, 2, 2, 46}, transport.ReasonDistrusted},
		"an alert of another kind":   {[]byte{typeAlert, 3, 3, 0, 2, 2, 80}, transport.ReasonHandshake},
		"an alert of one octet":      {[]byte{typeAlert, 3, 3, 0, 1, 48}, transport.ReasonIntegrity},
		"an alert of three octets":   {[]byte{typeAlert, 3, 3, 0, 3, 2, 48, 0}, transport.ReasonIntegrity},
		"a damaged encrypted record": {[]byte{typeData, 3, 3, 0, 2, 2, 48}, transport.ReasonIntegrity},
	} {
		t.Run(name, func(t *testing.T) {
			s := listen(t, tlsconn.Options{})
			conn := dialTCP(t, s.addr())
			_, _ = conn.Write(clientHello(t))
			for i := range c.records {
				_, _ = conn.Write(c.records[i : i+1])
			}
			if e := s.event(t, c.reason); c.reason == transport.ReasonDistrusted && strings.Contains(e.Err.Error(), "MAC") {
				t.Errorf("event %+v", e)
			}
			s.serves(t)
		})
	}
}

// The policy for TLS is that of docs/tls.md.
func TestTL26TheKeyExchangeIsPostQuantumUnlessThePeerCannot(t *testing.T) {
	s := listen(t, tlsconn.Options{})
	for offered, want := range map[tls.CurveID]tls.CurveID{
		0:          tls.X25519MLKEM768, // whatever Policy.Client offers
		tls.X25519: tls.X25519, tls.CurveP256: tls.CurveP256, tls.CurveP384: tls.CurveP384,
	} {
		config := s.ca.Policy(t, transporttest.Client).Client("127.0.0.1")
		if offered != 0 {
			config.CurvePreferences = []tls.CurveID{offered}
		}
		conn := tls.Client(dialTCP(t, s.addr()), config)
		if err := conn.HandshakeContext(t.Context()); err != nil {
			t.Errorf("%v: %v", offered, err)
			continue
		}
		s.accept(t)
		if state := conn.ConnectionState(); state.CurveID != want || state.Version != tls.VersionTLS13 || state.DidResume {
			t.Errorf("%v: key exchange %v, %s, resumed: %v", offered, state.CurveID, tls.VersionName(state.Version), state.DidResume)
		}
	}
}

func TestTL26TicketsOfAServerAreNotUsed(t *testing.T) {
	ca := transporttest.NewCA(t)
	config := ca.Policy(t, transporttest.Server).Server()
	config.SessionTicketsDisabled = false
	ln, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	states := make(chan tls.ConnectionState, 2)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range cap(states) {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_ = c.(*tls.Conn).Handshake()
			states <- c.(*tls.Conn).ConnectionState()
			_, _ = c.Write([]byte{0, 0, 0, 1, 0}) // behind its tickets
			_ = c.Close()
		}
	}()
	policy := ca.Policy(t, transporttest.Client)
	for range cap(states) {
		c, err := tlsconn.Dial(t.Context(), ln.Addr().String(), policy, tlsconn.Options{})
		if err != nil {
			t.Fatal(err)
		}
		transporttest.NewRaw(t, c).ReadFrame()
		_, _ = c.Close(0), <-c.Context().Done()
		if state := <-states; state.DidResume || state.CurveID != tls.X25519MLKEM768 {
			t.Errorf("key exchange %v, resumed: %v", state.CurveID, state.DidResume)
		}
	}
	_ = ln.Close()
	<-done
}
