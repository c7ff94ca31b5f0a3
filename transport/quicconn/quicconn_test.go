package quicconn_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/transporttest"
)

// server is a listener that shows everything it tells.
type server struct {
	*quicconn.Listener
	ca     *transporttest.CA
	events chan transport.SecurityEvent
}

func listen(t *testing.T, opts quicconn.Options) *server {
	t.Helper()
	transporttest.NoLeaks(t)
	s := &server{ca: transporttest.NewCA(t), events: make(chan transport.SecurityEvent, 4096)}
	opts.OnSecurity = func(e transport.SecurityEvent) { s.events <- e }
	ln, err := quicconn.Listen("127.0.0.1:0", s.ca.Policy(t, transporttest.Server), opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Listener = ln
	t.Cleanup(func() { _ = ln.Close() })
	return s
}

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
	defer func() {
		for t.Failed() && len(s.events) > 0 {
			t.Logf("the server said %+v", <-s.events)
		}
	}()
	return transporttest.Connect(t, s.Listener, s.ca.Policy(t, transporttest.Client))
}

func patience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
	t.Cleanup(cancel)
	return ctx
}

// bare is a client that knows quic-go and nothing of ours but the policy.
func (s *server) bare(t *testing.T, edit func(*tls.Config, *quic.Config)) (*quic.Conn, error) {
	t.Helper()
	tc := s.ca.Policy(t, transporttest.Client).Client("127.0.0.1")
	qc := &quic.Config{EnableDatagrams: true}
	if edit != nil {
		edit(tc, qc)
	}
	conn, err := quic.DialAddr(patience(t), s.Addr().String(), tc, qc)
	if err == nil {
		t.Cleanup(func() { _ = conn.CloseWithError(0, "") })
	}
	return conn, err
}

func TestResetCarriesItsCodeAndLeavesOtherStreams(t *testing.T) {
	s := listen(t, quicconn.Options{})
	server, client := s.serves(t)
	out, in := transporttest.Streams(t, client, server)
	other, otherIn := transporttest.Streams(t, client, server)

	read := make(chan error)
	go func() {
		_, err := out.Read(make([]byte, 1))
		read <- err
	}()
	in.Reset(9)
	if err := <-read; !isCloseError(err, 9, true) {
		t.Errorf("read: %v", err)
	}
	<-out.Context().Done()
	if _, err := out.Write([]byte("x")); !isCloseError(err, 9, true) {
		t.Errorf("write: %v", err)
	}
	if _, err := in.Read(make([]byte, 1)); !isCloseError(err, 9, false) {
		t.Errorf("read after own reset: %v", err)
	}
	transporttest.RawOn(t, client, other).WriteFrame([]byte("fine"))
	if got := transporttest.RawOn(t, server, otherIn).ReadFrame(); string(got) != "fine" {
		t.Errorf("read %q", got)
	}
}

func TestConcludeDeliversWhatWasWrittenAndThenItsCode(t *testing.T) {
	s := listen(t, quicconn.Options{})
	server, client := s.serves(t)
	out, in := transporttest.Streams(t, client, server)
	answer := bytes.Repeat([]byte("x"), 200<<10) // many packets
	if _, err := in.Write(answer); err != nil {
		t.Fatal(err)
	}
	if !server.(transport.Concluder).Conclude(in, 9) {
		t.Fatal("not concluded between two ends that support it")
	}
	<-out.Context().Done() // the reset has arrived before anything is read
	if got, err := io.ReadAll(out); !bytes.Equal(got, answer) || !isCloseError(err, 9, true) {
		t.Errorf("%d octets, then %v, want %d octets and code 9", len(got), err, len(answer))
	}
	if _, err := out.Write([]byte("x")); !isCloseError(err, 9, true) {
		t.Errorf("write: %v", err)
	}
	if _, err := in.Read(make([]byte, 1)); !isCloseError(err, 9, false) {
		t.Errorf("read after own end: %v", err)
	}
}

func TestConcludeDoesNothingWithoutTheSupportOfThePeer(t *testing.T) {
	s := listen(t, quicconn.Options{})
	client, err := s.bare(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	server, err := s.Accept(patience(t))
	if err != nil {
		t.Fatal(err)
	}
	out, err := client.OpenStreamSync(patience(t))
	if err == nil {
		_, err = out.Write([]byte("x"))
	}
	if err != nil {
		t.Fatal(err)
	}
	in, err := server.Accept(patience(t))
	if err != nil {
		t.Fatal(err)
	}
	if server.(transport.Concluder).Conclude(in, 9) {
		t.Error("concluded though the peer does not support it")
	}
	if _, err := in.Read(make([]byte, 1)); err != nil {
		t.Errorf("the stream has ended: %v", err)
	}
}

func TestCloseCarriesItsCode(t *testing.T) {
	s := listen(t, quicconn.Options{})
	for _, code := range []uint64{0, 7, 255} {
		server, client := s.serves(t)
		out, _ := transporttest.Streams(t, client, server)
		if err := server.Close(code); err != nil {
			t.Error(err)
		}
		_ = server.Close(code + 1)
		<-client.Context().Done()
		for what, err := range map[string]error{
			"cause":  context.Cause(client.Context()),
			"read":   second(out.Read(make([]byte, 1))),
			"write":  second(out.Write(make([]byte, 1))),
			"open":   secondOf(client.Open(patience(t))),
			"accept": secondOf(client.Accept(patience(t))),
		} {
			if !isCloseError(err, code, true) {
				t.Errorf("code %d: %s: %v", code, what, err)
			}
		}
		<-out.Context().Done()
		<-server.Context().Done()
		if err := context.Cause(server.Context()); !isCloseError(err, code, false) {
			t.Errorf("code %d: cause here: %v", code, err)
		}
	}
}

func second(_ int, err error) error                { return err }
func secondOf(_ transport.Stream, err error) error { return err }

// The server has the connection before Dial returns, so its close may come first. Whether it
// does depends on goroutines of this process; both orders occur in this number of tries.
func TestACloseAtOnceHasItsCodeBeforeAndAfterDialReturns(t *testing.T) {
	s := listen(t, quicconn.Options{})
	ctx := patience(t)
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			c, err := s.Accept(ctx)
			if err != nil {
				return
			}
			_ = c.Close(0xb)
		}
	}()
	policy := s.ca.Policy(t, transporttest.Client)
	for range 50 {
		c, err := quicconn.Dial(ctx, s.Addr().String(), policy, quicconn.Options{OnSecurity: func(e transport.SecurityEvent) { t.Errorf("security event %+v", e) }})
		if err == nil {
			<-c.Context().Done()
			err = context.Cause(c.Context())
			_ = c.Close(0)
		}
		if closed := (*transport.CloseError)(nil); !errors.As(err, &closed) || closed.Code != 0xb || !closed.Remote {
			t.Fatalf("error %v, want a CloseError of the peer with code 11", err)
		}
	}
	_ = s.Close()
	<-accepting
}

func TestHalfCloseLetsTheAnswerThrough(t *testing.T) {
	s := listen(t, quicconn.Options{})
	server, client := s.serves(t)
	out, in := transporttest.Streams(t, client, server)
	a, b := transporttest.RawOn(t, client, out), transporttest.RawOn(t, server, in)
	a.WriteFrame([]byte("question"))
	a.CloseWrite()
	if got := b.ReadFrame(); string(got) != "question" {
		t.Errorf("read %q", got)
	}
	if err := b.ExpectEnd(); err != io.EOF {
		t.Errorf("end: %v", err)
	}
	b.WriteFrame([]byte("answer"))
	if got := a.ReadFrame(); string(got) != "answer" {
		t.Errorf("read %q", got)
	}
}

func TestReadDeadlineLeavesTheStreamUsable(t *testing.T) {
	s := listen(t, quicconn.Options{})
	server, client := s.serves(t)
	out, in := transporttest.Streams(t, client, server)
	_ = in.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := in.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	transporttest.RawOn(t, client, out).WriteFrame([]byte("late"))
	if got := transporttest.RawOn(t, server, in).ReadFrame(); string(got) != "late" {
		t.Errorf("read %q", got)
	}
}

func TestQU01StreamsCountUntilTheirWorkIsOver(t *testing.T) {
	const limit = 128
	s := listen(t, quicconn.Options{})
	serverConn, clientConn := s.serves(t)
	var accepted []transport.Stream
	for range limit {
		out, in := transporttest.Streams(t, clientConn, serverConn)
		out.Reset(1)
		if _, err := in.Read(make([]byte, 1)); !isCloseError(err, 1, true) {
			t.Fatal(err)
		}
		in.Reset(1) // the server, too, is done with the octets; its work goes on
		accepted = append(accepted, in)
	}
	opened := make(chan error)
	go func() {
		s, err := clientConn.Open(patience(t))
		if err == nil {
			_, err = s.Write([]byte{0})
		}
		opened <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if st, err := serverConn.Accept(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a stream above the limit: %v, %v", st, err)
	}
	accepted[7].(transport.Releaser).Release()
	accepted[7].(transport.Releaser).Release()
	if err := <-opened; err != nil {
		t.Error(err)
	}
	if _, err := serverConn.Accept(patience(t)); err != nil {
		t.Error(err)
	}
	if _, err := clientConn.Open(ctx); err == nil {
		t.Error("one release permitted two streams")
	}
}

func TestQU03UnidirectionalStreamsAndDatagramsAreNotOffered(t *testing.T) {
	s := listen(t, quicconn.Options{})
	conn, err := s.bare(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.OpenUniStream(); err == nil {
		t.Error("opened a unidirectional stream")
	}
	if conn.ConnectionState().SupportsDatagrams.Remote {
		t.Error("datagrams are offered")
	}
	if err := conn.SendDatagram([]byte("x")); err == nil {
		t.Error("sent a datagram")
	}
	server, err := s.Accept(patience(t))
	if err != nil {
		t.Fatal(err)
	}
	_ = server.Close(0)
}

func TestQU03WindowsBoundWhatIsHeldUnread(t *testing.T) {
	s := listen(t, quicconn.Options{})
	server, client := s.serves(t)
	var streams []transport.Stream
	for range 8 {
		out, _ := transporttest.Streams(t, client, server)
		streams = append(streams, out)
	}
	total := 0
	for _, out := range streams {
		_ = out.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		n, err := out.Write(make([]byte, 2<<20))
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("wrote %d octets that nobody reads: %v", n, err)
		}
		if n > 1<<20 {
			t.Errorf("one stream took %d octets", n)
		}
		total += n
	}
	if total > 4<<20 || total == 0 {
		t.Errorf("the connection took %d octets", total)
	}
}

func TestTL02DowngradesAreRefused(t *testing.T) {
	for name, protos := range map[string][]string{"no ALPN": nil, "foreign ALPN": {"h3"}, "next version": {"swp/2"}} {
		t.Run(name, func(t *testing.T) {
			s := listen(t, quicconn.Options{})
			if _, err := s.bare(t, func(c *tls.Config, _ *quic.Config) { c.NextProtos = protos }); err == nil {
				t.Error("connected")
			}
			s.event(t, transport.ReasonDowngrade)
			s.serves(t)
		})
	}
}

type tickets struct {
	tls.ClientSessionCache
	puts int
}

func (c *tickets) Put(key string, s *tls.ClientSessionState) {
	c.puts++
	c.ClientSessionCache.Put(key, s)
}

func TestTL02AnotherVersionOfQUICIsNotSpoken(t *testing.T) {
	s := listen(t, quicconn.Options{})
	_, err := s.bare(t, func(_ *tls.Config, qc *quic.Config) { qc.Versions = []quic.Version{quic.Version2} })
	if other, ok := errors.AsType[*quic.VersionNegotiationError](err); !ok || !slices.Contains(other.Theirs, quic.Version1) || slices.Contains(other.Theirs, quic.Version2) {
		t.Errorf("a client of QUIC v2: %v, want that this side has v1 only", err)
	}
	if _, err := s.bare(t, func(_ *tls.Config, qc *quic.Config) { qc.Versions = []quic.Version{quic.Version2, quic.Version1} }); err != nil {
		t.Errorf("a client that has both: %v", err)
	}
}

func TestTL08NoTicketIsOfferedAndEarlyDataIsNotAccepted(t *testing.T) {
	s := listen(t, quicconn.Options{})
	cache := &tickets{ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	for range 2 {
		tc := s.ca.Policy(t, transporttest.Client).Client("127.0.0.1")
		tc.SessionTicketsDisabled = false
		tc.ClientSessionCache = cache
		conn, err := quic.DialAddrEarly(patience(t), s.Addr().String(), tc, &quic.Config{})
		if err != nil {
			t.Fatal(err)
		}
		st, err := conn.OpenStreamSync(patience(t))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = st.Write([]byte{0, 0, 0, 1, 0})
		server, err := s.Accept(patience(t))
		if err != nil {
			t.Fatal(err)
		}
		in, err := server.Accept(patience(t))
		if err != nil {
			t.Fatal(err)
		}
		transporttest.RawOn(t, server, in).WriteFrame([]byte("x"))
		if _, err := io.ReadFull(st, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		if conn.ConnectionState().Used0RTT || conn.ConnectionState().TLS.DidResume {
			t.Error("resumed")
		}
		_ = conn.CloseWithError(0, "")
		<-server.Context().Done()
	}
	if cache.puts != 0 {
		t.Errorf("%d tickets", cache.puts)
	}
}

func TestDiallerIsToldThatTheServerRefusedIt(t *testing.T) {
	s := listen(t, quicconn.Options{})
	events := make(chan transport.SecurityEvent, 1)
	stranger := transporttest.PolicyOf(transporttest.NewCA(t).Issue(t, transporttest.Named(transporttest.Client)), s.ca.Pool())
	c, err := quicconn.Dial(patience(t), s.Addr().String(), stranger, quicconn.Options{OnSecurity: func(e transport.SecurityEvent) { events <- e }})
	identity := transporttest.Server
	if err == nil {
		<-c.Context().Done()
	} else { // the refusal was faster than the return of Dial, which returns it
		identity = ""
	}
	if e := <-events; e.Reason != transport.ReasonDistrusted || e.Identity != identity {
		t.Errorf("event %+v, want reason distrusted and identity %q; error of Dial %v", e, identity, err)
	}
	if e := s.event(t, transport.ReasonUntrusted); e.Identity != transporttest.Client {
		t.Errorf("event %+v", e)
	}
}

// The policy for TLS is that of docs/tls.md.
func TestTL26TheKeyExchangeIsPostQuantumUnlessThePeerCannot(t *testing.T) {
	s := listen(t, quicconn.Options{})
	for offered, want := range map[tls.CurveID]tls.CurveID{0: tls.X25519MLKEM768, tls.X25519: tls.X25519, tls.CurveP256: tls.CurveP256} {
		config := s.ca.Policy(t, transporttest.Client).Client("127.0.0.1")
		if offered != 0 {
			config.CurvePreferences = []tls.CurveID{offered}
		}
		conn, err := quic.DialAddr(patience(t), s.Addr().String(), config, &quic.Config{})
		if err != nil {
			t.Errorf("%v: %v", offered, err)
			continue
		}
		if _, err := s.Accept(patience(t)); err != nil {
			t.Fatal(err)
		}
		if state := conn.ConnectionState(); state.TLS.CurveID != want || state.TLS.DidResume || state.Used0RTT {
			t.Errorf("%v: key exchange %v, resumed: %v, early data: %v", offered, state.TLS.CurveID, state.TLS.DidResume, state.Used0RTT)
		}
		_ = conn.CloseWithError(0, "")
	}
}

func TestTL25APeerThatDoesNotTrustThisEndpointIsNamed(t *testing.T) {
	s := listen(t, quicconn.Options{})
	policy := transporttest.PolicyOf(s.ca.Issue(t, transporttest.Named(transporttest.Client)), transporttest.NewCA(t).Pool())
	if _, err := quicconn.Dial(patience(t), s.Addr().String(), policy, quicconn.Options{}); err == nil {
		t.Error("the client trusts a stranger")
	}
	s.event(t, transport.ReasonDistrusted)
	s.serves(t)
}

func TestCloseOfAListenerLeavesConnections(t *testing.T) {
	s := listen(t, quicconn.Options{})
	server, client := s.serves(t)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Accept(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v", err)
	}
	transporttest.Streams(t, client, server)
	if _, err := s.bare(t, func(_ *tls.Config, c *quic.Config) { c.HandshakeIdleTimeout = 100 * time.Millisecond }); err == nil {
		t.Error("connected to a closed listener")
	}
	_ = client.Close(0)
	<-server.Context().Done()
	if n := len(s.events); n != 0 {
		t.Errorf("%d events, first %+v", n, <-s.events)
	}

	other := listen(t, quicconn.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := other.Accept(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("accept: %v", err)
	}
}

func isCloseError(err error, code uint64, remote bool) bool {
	var c *transport.CloseError
	return errors.As(err, &c) && c.Code == code && c.Remote == remote
}
