package passing_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/passing"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/transporttest"
)

// patience limits the wait for an expected event.
const patience = time.Minute

// rig is an endpoint of two processes: peers dial one, which passes them to the other.
type rig struct {
	t       testing.TB
	ca      *transporttest.CA
	policy  *transport.Policy // of the endpoint
	taker   *passing.Taker
	passer  *passing.Passer
	refused chan error
}

func newRig(t testing.TB, more ...func(*passing.TakerOptions)) *rig {
	t.Helper()
	transporttest.NoLeaks(t)
	r := &rig{t: t, ca: transporttest.NewCA(t), refused: make(chan error, 16)}
	r.policy = r.ca.Policy(t, "swp://endpoint.example")
	passer, taker := key(t, "one"), key(t, "two")
	var err error
	o := passing.TakerOptions{
		Address: "127.0.0.1:0", Own: taker, Policy: r.policy, OnSecurity: func(transport.SecurityEvent) {},
	}
	for _, f := range more {
		f(&o)
	}
	r.taker, err = passing.Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	r.taker.Trust(passer.Certificate)
	t.Cleanup(func() { _ = r.taker.Close() })
	place := passing.Place{Name: "two", Address: r.taker.Addr().String(), Certificate: taker.Certificate[0]}
	r.passer = &passing.Passer{Own: passer, Place: func() (passing.Place, bool) { return place, true }, Patience: patience, Write: patience}
	return r
}

func key(t testing.TB, name string) *tls.Certificate {
	t.Helper()
	k, err := passing.NewKey(name)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// listen listens for peers, and passes each.
func (r *rig) listen(kind string) transport.Listener {
	r.t.Helper()
	ln := transporttest.Listen(r.t, kind, r.policy, nil)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := ln.Accept(ctx)
			if err != nil {
				return
			}
			go func() { r.refused <- r.passer.Conn(ctx, conn, true) }()
		}
	}()
	r.t.Cleanup(func() { cancel(); <-ended })
	return ln
}

// pair returns both ends of a connection of a peer.
func (r *rig) pair(kind string) (client, server transport.Conn) {
	r.t.Helper()
	r.taker.Take(true)
	ln := r.listen(kind)
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	client, err := transporttest.Dial(ctx, kind, ln.Addr().String(), r.ca.Policy(r.t, "swp://peer.example"))
	if err == nil {
		server, err = r.taker.Peers(true).Accept(ctx)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _, _ = client.Close(0), server.Close(0) })
	return client, server
}

func all(t testing.TB, s transport.Stream) string {
	t.Helper()
	_ = s.SetReadDeadline(time.Now().Add(patience))
	b, err := io.ReadAll(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func both(t *testing.T, test func(t *testing.T, kind string)) {
	for _, kind := range []string{"tls", "quic"} {
		t.Run(kind, func(t *testing.T) { test(t, kind) })
	}
}

func TestAPassedConnectionIsThatOfThePeer(t *testing.T) {
	both(t, func(t *testing.T, kind string) {
		r := newRig(t)
		client, server := r.pair(kind)
		peer := server.Peer()
		if peer.Identity != "swp://peer.example" || peer.Transport != kind || server.Multiplexed() != client.Multiplexed() {
			t.Fatalf("%+v", peer)
		}
		leaves := server.(transport.Certified).Leaves()
		if shown := r.policy.Credentials().Certificate; leaves.Own != shown || leaves.Peer.Subject.String() != peer.Subject {
			t.Fatalf("%+v", leaves)
		}
		must(t, server.(transport.Rechecker).Recheck())
		large := strings.Repeat("request ", 1<<17)
		opened, accepted := transporttest.Streams(t, client, server)
		go func() { _, _ = opened.Write([]byte(large)); _ = opened.CloseWrite() }()
		if got := all(t, accepted); got != large {
			t.Fatalf("%d octets, want %d", len(got), len(large))
		}
		go func() { _, _ = accepted.Write([]byte(large)); _ = accepted.CloseWrite() }()
		if got := all(t, opened); got != large {
			t.Fatalf("%d octets, want %d", len(got), len(large))
		}
	})
}

// Processes read a new certificate at different times.
func TestAPeerKeepsTheCertificateThatItWasShown(t *testing.T) {
	r := newRig(t)
	var now atomic.Pointer[transport.Credentials]
	now.Store(r.policy.Credentials())
	old, renewed := now.Load(), r.ca.Policy(t, "swp://endpoint.example").Credentials()
	r.policy.Credentials = now.Load
	client, server := r.pair("tls")
	own := func(c transport.Conn) *tls.Certificate { return c.(transport.Certified).Leaves().Own }
	now.Store(renewed)
	if own(server) != old.Certificate || own(client) == nil {
		t.Fatal("the old connection has another certificate")
	}
	passer := *r.policy // it has not read the new one yet
	passer.Credentials = func() *transport.Credentials { return old }
	taker := r.policy
	r.policy = &passer
	_, late := r.pair("tls")
	if own(late) != old.Certificate {
		t.Fatal("shown the old one, and has another")
	}
	passer.Credentials, r.policy = func() *transport.Credentials { return renewed }, &passer
	now.Store(old) // the taker is behind
	_ = taker
	_, early := r.pair("tls")
	if own(early) == nil {
		t.Fatal("no certificate")
	}
	now.Store(renewed)
	if own(early) != renewed.Certificate {
		t.Fatal("the taker has the certificate now, and the connection does not")
	}
}

func TestTheTakerOpensStreams(t *testing.T) {
	r := newRig(t)
	client, server := r.pair("quic")
	opened, accepted := transporttest.Streams(t, server, client)
	_, err := opened.Write([]byte("push"))
	must(t, errors.Join(err, opened.CloseWrite()))
	if got := all(t, accepted); got != "push" {
		t.Fatal(got)
	}
}

func TestAStreamEndsWithItsCodeBehindItsOctets(t *testing.T) {
	r := newRig(t)
	client, server := r.pair("quic")
	opened, accepted := transporttest.Streams(t, client, server)
	_, err := accepted.Write([]byte("answer"))
	must(t, err)
	if !server.(transport.Concluder).Conclude(accepted, 7) {
		t.Fatal("not concluded")
	}
	_ = opened.SetReadDeadline(time.Now().Add(patience))
	got, err := io.ReadAll(opened)
	closed, ok := errors.AsType[*transport.CloseError](err)
	if !ok || string(got) != "answer" || closed.Code != 7 || !closed.Remote || !closed.Stream {
		t.Fatalf("%q, %v", got, err)
	}

	opened, accepted = transporttest.Streams(t, client, server)
	opened.Reset(9)
	_ = accepted.SetReadDeadline(time.Now().Add(patience))
	_, err = io.ReadAll(accepted)
	if closed, ok := errors.AsType[*transport.CloseError](err); !ok || closed.Code != 9 {
		t.Fatal(err)
	}
}

func TestAConnectionEndsWithItsCode(t *testing.T) {
	for _, name := range []string{"by the taker", "by the peer"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			from, to := r.pair("quic")
			if name == "by the taker" {
				from, to = to, from
			}
			must(t, from.Close(5))
			select {
			case <-to.Context().Done():
			case <-time.After(patience):
				t.Fatal("still open")
			}
			closed, ok := errors.AsType[*transport.CloseError](context.Cause(to.Context()))
			if !ok || closed.Code != 5 || !closed.Remote {
				t.Fatal(context.Cause(to.Context()))
			}
		})
	}
}

func TestWhatTheTakerWroteLastArrivesBeforeTheEnd(t *testing.T) {
	r := newRig(t)
	client, server := r.pair("tls")
	opened, accepted := transporttest.Streams(t, client, server)
	last := bytes.Repeat([]byte("last"), 1<<15)
	go func() { _, _ = accepted.Write(last); _ = server.Close(0) }()
	if got := all(t, opened); got != string(last) {
		t.Fatalf("%d octets of %d", len(got), len(last))
	}
}

func TestANewConnectionWaitsUntilAProcessTakesIt(t *testing.T) {
	both(t, func(t *testing.T, kind string) {
		r := newRig(t)
		asked := make(chan struct{}, 1)
		place, _ := r.passer.Place()
		var n atomic.Int32
		r.passer.Place = func() (passing.Place, bool) {
			if n.Add(1) == 3 {
				asked <- struct{}{}
			}
			return place, n.Load() > 1
		}
		ln := r.listen(kind)
		client, err := transporttest.Dial(t.Context(), kind, ln.Addr().String(), r.ca.Policy(t, "swp://peer.example"))
		must(t, err)
		defer func() { _ = client.Close(0) }()
		<-asked // it was refused once
		r.taker.Take(true)
		server, err := r.taker.Peers(true).Accept(t.Context())
		must(t, err)
		must(t, server.Close(0))
	})
}

// A process that has ended answers nothing over QUIC, and an attempt to reach it has five seconds.
func TestAnAttemptEndsWhenAnotherProcessTakesConnections(t *testing.T) {
	both(t, func(t *testing.T, kind string) {
		r := newRig(t)
		udp, err := net.ListenPacket("udp", "127.0.0.1:0")
		must(t, err)
		tcp, err := net.Listen("tcp", udp.LocalAddr().String())
		for ; err != nil; tcp, err = net.Listen("tcp", udp.LocalAddr().String()) { // somebody else has the port
			_ = udp.Close()
			udp, err = net.ListenPacket("udp", "127.0.0.1:0")
			must(t, err)
		}
		until, replaced := context.WithCancel(t.Context())
		defer replaced()
		done := make(chan struct{}, 2)
		go func() {
			if c, err := tcp.Accept(); err == nil {
				replaced()
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			}
			done <- struct{}{}
		}()
		go func() {
			if _, _, err := udp.ReadFrom(make([]byte, 2000)); err == nil {
				replaced()
			}
			done <- struct{}{}
		}()
		defer func() {
			_, _ = tcp.Close(), udp.Close()
			<-done
			<-done
		}()
		next := r.passer.Place
		r.passer.Place = func() (passing.Place, bool) {
			place, ok := next()
			if until.Err() == nil {
				place.Address, place.Until = tcp.Addr().String(), until
			}
			return place, ok
		}
		began := time.Now()
		r.pair(kind)
		if took := time.Since(began); took >= 5*time.Second {
			t.Errorf("the connection waited for %v", took)
		}
	})
}

func TestAConnectionThatNobodyTakesEnds(t *testing.T) {
	r := newRig(t)
	r.passer.Patience = time.Millisecond
	ln := r.listen("tls")
	client, err := transporttest.Dial(t.Context(), "tls", ln.Addr().String(), r.ca.Policy(t, "swp://peer.example"))
	must(t, err)
	defer func() { _ = client.Close(0) }()
	if err := <-r.refused; err == nil {
		t.Fatal("passed")
	}
	s, err := client.Open(t.Context())
	must(t, err)
	if n, err := s.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Fatal("octets of nobody")
	}
}

func TestAProcessThatIsNotAMemberPassesNothing(t *testing.T) {
	both(t, func(t *testing.T, kind string) {
		r := newRig(t)
		r.taker.Trust(nil)
		r.passer.Patience = time.Second
		r.taker.Take(true)
		ln := r.listen(kind)
		client, err := transporttest.Dial(t.Context(), kind, ln.Addr().String(), r.ca.Policy(t, "swp://peer.example"))
		must(t, err)
		defer func() { _ = client.Close(0) }()
		if err := <-r.refused; err == nil {
			t.Fatal("passed")
		}
	})
}

func TestThePasserRefusesAProcessWithAnotherKey(t *testing.T) {
	r := newRig(t)
	r.taker.Take(true)
	place, _ := r.passer.Place()
	place.Certificate = key(t, "two").Certificate[0]
	r.passer.Place, r.passer.Patience = func() (passing.Place, bool) { return place, true }, time.Second
	ln := r.listen("tls")
	client, err := transporttest.Dial(t.Context(), "tls", ln.Addr().String(), r.ca.Policy(t, "swp://peer.example"))
	must(t, err)
	defer func() { _ = client.Close(0) }()
	if err := <-r.refused; err == nil {
		t.Fatal("passed to a stranger")
	}
}

// The taker verifies the peer with its own trust anchors.
func TestTheTakerVerifiesThePeer(t *testing.T) {
	events := make(chan transport.SecurityEvent, 16)
	r := newRig(t, func(o *passing.TakerOptions) { o.OnSecurity = func(e transport.SecurityEvent) { events <- e } })
	r.taker.Take(true)
	other := transporttest.NewCA(t)
	lax := *r.policy
	both := r.ca.Pool()
	both.AddCert(other.Cert)
	own := r.policy.Credentials().Certificate
	lax.Credentials = func() *transport.Credentials { return &transport.Credentials{Certificate: own, Roots: both} }
	r.policy = &lax
	ln := r.listen("tls")
	stranger := other.Policy(t, "swp://peer.example")
	ours := r.ca.Pool()
	certificate := stranger.Credentials().Certificate
	stranger.Credentials = func() *transport.Credentials { return &transport.Credentials{Certificate: certificate, Roots: ours} }
	client, err := transporttest.Dial(t.Context(), "tls", ln.Addr().String(), stranger)
	must(t, err)
	defer func() { _ = client.Close(0) }()
	if err := <-r.refused; err == nil || !strings.Contains(err.Error(), "not taken") {
		t.Fatal(err)
	}
	if e := <-events; e.Transport != "tls" || e.Reason != transport.ReasonUntrusted || !strings.HasPrefix(e.Addr, "127.0.0.1:") {
		t.Errorf("told %+v", e)
	}
}

func TestAPasserAsksWhetherConnectionsAreTaken(t *testing.T) {
	r := newRig(t)
	if err := r.passer.Ask(t.Context()); err == nil || !strings.Contains(err.Error(), "takes no connections now") {
		t.Fatal(err)
	}
	r.taker.Take(true)
	must(t, r.passer.Ask(t.Context()))
	must(t, r.taker.Close())
	if err := r.passer.Ask(t.Context()); err == nil {
		t.Fatal("nothing listens there")
	}
}

func TestConnectionsOfTCPArePassedAsTheyAre(t *testing.T) {
	r := newRig(t)
	r.taker.Take(true)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = ln.Close() }()
	client, err := net.Dial("tcp", ln.Addr().String())
	must(t, err)
	accepted, err := ln.Accept()
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- r.passer.Raw(context.Background(), accepted) }()
	server, err := r.taker.Raw().Accept()
	must(t, err)
	if got := server.RemoteAddr().String(); got != client.LocalAddr().String() {
		t.Fatal(got)
	}
	go func() { _, _ = client.Write([]byte("GET")); _ = client.(*net.TCPConn).CloseWrite() }()
	if got, err := io.ReadAll(server); err != nil || string(got) != "GET" {
		t.Fatal(string(got), err)
	}
	_, err = server.Write([]byte("200"))
	must(t, errors.Join(err, server.Close()))
	if got, err := io.ReadAll(client); err != nil || string(got) != "200" {
		t.Fatal(string(got), err)
	}
	<-done
}

func TestAProcessThatLeavesHasItsConnectionsDrained(t *testing.T) {
	both(t, func(t *testing.T, kind string) {
		r := newRig(t)
		_, server := r.pair(kind)
		departing := server.(transport.Departing).Departing()
		if departing.Err() != nil {
			t.Fatal("drained at once")
		}
		r.taker.Take(false) // it still hears of the end
		r.taker.Trust(nil)  // the process is silent for a while
		r.taker.Trust(r.passer.Own.Certificate)
		must(t, r.passer.Leave(t.Context()))
		<-departing.Done()
	})
}

func TestAConnectionOfTCPEndsWhenItIsIdle(t *testing.T) {
	r := newRig(t)
	r.taker.Take(true)
	leaving, leave := context.WithCancel(context.Background())
	r.passer.Leaving = leaving
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = ln.Close() }()
	client, err := net.Dial("tcp", ln.Addr().String())
	must(t, err)
	accepted, err := ln.Accept()
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- r.passer.Raw(context.Background(), accepted) }()
	_, err = client.Write([]byte("request"))
	must(t, err)
	server, err := r.taker.Raw().Accept()
	must(t, err)
	_, err = io.ReadFull(server, make([]byte, 7))
	must(t, err)
	leave()
	select {
	case <-done:
		t.Fatal("it ends before the answer")
	case <-time.After(2 * time.Second): // longer than an idle connection lasts
	}
	_, err = server.Write([]byte("answer"))
	must(t, err)
	if got, err := io.ReadAll(client); err != nil || string(got) != "answer" {
		t.Fatal(string(got), err)
	}
	<-done
	_ = server.Close()
}

// A peer that takes the end of a connection for an answer would not ask again.
func TestALostProcessIsNoOrderlyEnd(t *testing.T) {
	both(t, func(t *testing.T, kind string) {
		r := newRig(t)
		until, lost := context.WithCancel(context.Background())
		defer lost()
		place, _ := r.passer.Place()
		place.Until = until
		r.passer.Place = func() (passing.Place, bool) { return place, true }
		client, server := r.pair(kind)
		opened, _ := transporttest.Streams(t, client, server)
		lost()
		_ = opened.SetReadDeadline(time.Now().Add(patience))
		_, err := opened.Read(make([]byte, 1))
		if closed, ok := errors.AsType[*transport.CloseError](err); err == io.EOF || ok && closed.Code == 0 {
			t.Fatal(err)
		}
	})
}
