package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/profiles/state"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

// stage is a server and the files of a client, which fit each other.
type stage struct {
	t      *testing.T
	kind   string // "tls", "quic" or "tcp"
	ca     *transporttest.CA
	server *transport.Policy
	opts   Options
}

func newStage(t *testing.T, kind string) *stage {
	transporttest.NoLeaks(t)
	ca := transporttest.NewCA(t)
	s := &stage{t: t, kind: kind, ca: ca, server: ca.Policy(t, transporttest.Server)}
	s.show(transporttest.Named(transporttest.Client))
	return s
}

// show has the client show a certificate of the authority that the server trusts.
func (s *stage) show(l transporttest.Leaf) { s.opts.Identity = s.files(s.ca.Issue(s.t, l), s.ca) }

func (s *stage) files(cert *tls.Certificate, trusted *transporttest.CA) Identity {
	s.t.Helper()
	dir := s.t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		s.t.Fatal(err)
	}
	write := func(name, kind string, octets ...[]byte) string {
		var text []byte
		for _, o := range octets {
			text = append(text, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: o})...)
		}
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			s.t.Fatal(err)
		}
		return file
	}
	return Identity{
		Cert: write("client.crt", "CERTIFICATE", cert.Certificate...),
		Key:  write("client.key", "PRIVATE KEY", key),
		CA:   write("ca.crt", "CERTIFICATE", trusted.Cert.Raw),
	}
}

// serve serves the built-in methods until the test ends and returns the endpoint and
// its address.
func (s *stage) serve(o endpoint.Options) (*endpoint.Endpoint, string) {
	s.t.Helper()
	return s.serveAll(o, all.Options{})
}

// serveAll is serve with options of the profiles.
func (s *stage) serveAll(o endpoint.Options, of all.Options) (*endpoint.Endpoint, string) {
	s.t.Helper()
	set, err := all.New(of)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(set.Close)
	o.Registry = set.Registry
	return s.serveOn(o)
}

// serveWithoutRPC serves profile 17 alone.
func (s *stage) serveWithoutRPC() string {
	s.t.Helper()
	set, err := all.New(all.Options{State: state.Options{Store: memory(s.t)}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(set.Close)
	states, _ := set.Registry.Lookup(state.ProfileID)
	alone, err := profiles.NewRegistry(states)
	if err != nil {
		s.t.Fatal(err)
	}
	_, address := s.serveOn(endpoint.Options{Registry: alone})
	return address
}

// serveOn is serve with a registry.
func (s *stage) serveOn(o endpoint.Options) (*endpoint.Endpoint, string) {
	s.t.Helper()
	ep, err := endpoint.New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	ln := transporttest.Listen(s.t, s.kind, s.server, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = ep.Serve(context.Background(), ln)
	}()
	s.t.Cleanup(func() {
		_ = ep.Close()
		_ = ln.Close()
		<-done
	})
	return ep, s.address(ln.Addr())
}

// turnAway lets peers connect and closes them with a code, as swpd does with those
// whom its rules do not let in.
func (s *stage) turnAway(code profiles.Code) string { return s.turnAwayFor(uint64(code)) }

// turnAwayFor is turnAway with any code.
func (s *stage) turnAwayFor(code uint64) string {
	ln := transporttest.Listen(s.t, s.kind, s.server, nil)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept(ctx)
			if err != nil {
				return
			}
			_ = conn.Close(code)
		}
	}()
	s.t.Cleanup(func() {
		stop()
		_ = ln.Close()
		<-done
	})
	return s.address(ln.Addr())
}

// resetStreams lets peers connect and refuses what they begin.
func (s *stage) resetStreams(code profiles.Code) string {
	ln := transporttest.Listen(s.t, s.kind, s.server, nil)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := ln.Accept(ctx)
		for err == nil {
			var stream transport.Stream
			if stream, err = conn.Accept(ctx); err == nil {
				stream.Reset(uint64(code))
			}
		}
		if conn != nil {
			_ = conn.Close(0)
		}
	}()
	s.t.Cleanup(func() {
		stop()
		_ = ln.Close()
		<-done
	})
	return s.address(ln.Addr())
}

// raw hands each connection of TCP to a function and then closes it.
func (s *stage) raw(talk func(net.Conn)) string {
	s.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			talk(conn)
			_ = conn.Close()
		}
	}()
	s.t.Cleanup(func() {
		_ = ln.Close()
		<-done
	})
	return s.address(ln.Addr())
}

func (s *stage) address(a net.Addr) string { return "swp+" + s.kind + "://" + a.String() }

// call dials and calls a method, within the patience of the test.
func (s *stage) call(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.callWithin(ctx, address)
}

func (s *stage) callWithin(ctx context.Context, address string) error {
	c, err := Dial(ctx, address, s.opts)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = rpc.Call(ctx, c.Session, rpc.MethodPing, nil)
	return c.Explain(err)
}

// callSilent calls a method that never ends.
func (s *stage) callSilent(method string) (*RPCOutcome, error) {
	silent := rpc.Method{Held: func(*rpc.Pending, []byte) error { return nil }}
	_, address := s.serveAll(endpoint.Options{}, all.Options{RPC: rpc.Options{Methods: map[string]rpc.Method{method: silent}}})
	c, err := Dial(s.t.Context(), address, s.opts)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.CallRPC(s.t.Context(), RPC{Method: method, Silence: 50 * time.Millisecond})
}

// A method of the endpoint itself that says nothing for too long needs no advice.
func TestASilentMethodIsNotBlamedOnTheWay(t *testing.T) {
	for _, kind := range both {
		t.Run(kind, func(t *testing.T) {
			_, err := newStage(t, kind).callSilent("silent")
			if silent := (*SilentError)(nil); !errors.As(err, &silent) || errors.As(err, new(*Explained)) {
				t.Errorf("%T %[1]v, want a SilentError without advice", err)
			}
		})
	}
}

// used is the error of a connection that has carried a call and then ended.
func (s *stage) used(address string, end func()) error {
	c := s.carried(address)
	defer c.Close()
	end()
	select {
	case <-c.Context().Done():
	case <-time.After(patience):
		s.t.Fatal("the connection did not end")
	}
	return c.Explain(context.Cause(c.Context()))
}

// carried returns a connection that has carried a call. One that ends for its idleness
// before, which it does where the machine is busy, is made anew.
func (s *stage) carried(address string) *Client {
	for began := time.Now(); ; {
		c, err := Dial(s.t.Context(), address, s.opts)
		if err == nil {
			if _, err = rpc.Call(s.t.Context(), c.Session, rpc.MethodPing, nil); err == nil {
				return c
			}
			c.Close()
		}
		if time.Since(began) > patience {
			s.t.Fatal(err)
		}
	}
}

// provocation makes the error that an advice is for.
type provocation struct {
	name  string // of the advice
	how   string
	kinds []string
	do    func(s *stage) error
	want  string // of the words
}

var both, overTLS, overQUIC = []string{"tls", "quic"}, []string{"tls"}, []string{"quic"}

var provocations = []provocation{
	{"no identity", "a file that is not there", both, func(s *stage) error {
		s.opts.Identity.Cert = filepath.Join(s.t.TempDir(), "none")
		return s.call("swp+" + s.kind + "://127.0.0.1:1")
	}, "swpd init"},
	{"own certificate", "without a name", both, func(s *stage) error {
		s.show(transporttest.Leaf{IPs: []string{"127.0.0.1"}})
		_, address := s.serve(endpoint.Options{})
		return s.call(address)
	}, "one URI name"},
	{"own certificate", "with two names", both, func(s *stage) error {
		s.show(transporttest.Leaf{URIs: []string{"spiffe://a/b", "spiffe://a/c"}})
		_, address := s.serve(endpoint.Options{})
		return s.call(address)
	}, "one URI name"},
	{"own certificate", "for servers only", both, func(s *stage) error {
		l := transporttest.Named(transporttest.Client)
		l.EKU = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		s.show(l)
		_, address := s.serve(endpoint.Options{})
		return s.call(address)
	}, "may be used by clients"},
	{"own certificate out of time", "expired", both, func(s *stage) error {
		l := transporttest.Named(transporttest.Client)
		l.NotAfter = time.Now().Add(-time.Minute)
		s.show(l)
		_, address := s.serve(endpoint.Options{})
		return s.call(address)
	}, "expired at "},
	{"own certificate out of time", "not yet valid", both, func(s *stage) error {
		l := transporttest.Named(transporttest.Client)
		l.NotBefore = time.Now().Add(time.Minute)
		s.show(l)
		_, address := s.serve(endpoint.Options{})
		return s.call(address)
	}, "is not valid before "},
	{"refused certificate", "from another authority", both, func(s *stage) error {
		other := transporttest.NewCA(s.t)
		s.opts.Identity = s.files(other.Issue(s.t, transporttest.Named(transporttest.Client)), s.ca)
		_, address := s.serve(endpoint.Options{})
		return s.call(address)
	}, "from an authority that the server trusts"},
	{"authority of the server", "another one", both, func(s *stage) error {
		s.opts.Identity = s.files(s.ca.Issue(s.t, transporttest.Named(transporttest.Client)), transporttest.NewCA(s.t))
		_, address := s.serve(endpoint.Options{})
		return s.call(address)
	}, "--ca FILE"},
	{"name of the server", "no address in the certificate", both, func(s *stage) error {
		s.server = s.ca.PolicyWith(s.t, transporttest.Leaf{URIs: []string{transporttest.Server}})
		_, address := s.serve(endpoint.Options{})
		return s.call(address)
	}, "--expect"},
	{"time of the server", "expired", both, func(s *stage) error {
		l := transporttest.Named(transporttest.Server)
		l.NotAfter = time.Now().Add(-time.Minute)
		s.server = s.ca.PolicyWith(s.t, l)
		_, address := s.serve(endpoint.Options{})
		return s.call(address)
	}, "server's certificate is not valid now"},
	{"usage of the server", "for clients only", both, func(s *stage) error {
		l := transporttest.Named(transporttest.Server)
		l.EKU = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		s.server = s.ca.PolicyWith(s.t, l)
		_, address := s.serve(endpoint.Options{})
		return s.call(address)
	}, "lacks serverAuth"},
	{"identity of the server", "no name but the address", both, func(s *stage) error {
		s.server = s.ca.PolicyWith(s.t, transporttest.Leaf{IPs: []string{"127.0.0.1"}})
		_, address := s.serve(endpoint.Options{})
		return s.call(address)
	}, "does not say who it is"},
	{"another identity", "--expect", both, func(s *stage) error {
		s.opts.Expect = "spiffe://test.invalid/other"
		_, address := s.serve(endpoint.Options{})
		return s.call(address)
	}, "Correct --expect"},
	{"nothing listens", "a closed port", []string{"tls", "tcp"}, func(s *stage) error {
		return s.call("swp+" + s.kind + "://127.0.0.1:1")
	}, "Nothing listens there"},
	{"unknown host", "a name that cannot be", both, func(s *stage) error {
		return s.call("swp+" + s.kind + "://host.invalid:7777")
	}, "host name"},
	{"not SWP", "plain HTTP", overTLS, func(s *stage) error {
		return s.call(s.raw(func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }))
	}, "does not speak SWP"},
	{"not SWP", "hangs up", overTLS, func(s *stage) error {
		return s.call(s.raw(func(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) }))
	}, "does not speak SWP"},
	{"not SWP", "TLS without ALPN", overTLS, func(s *stage) error {
		return s.call(s.raw(func(c net.Conn) { s.otherTLS(c, &tls.Config{MinVersion: tls.VersionTLS13}) }))
	}, "does not speak SWP"},
	{"not SWP", "TLS with another protocol", overTLS, func(s *stage) error {
		return s.call(s.raw(func(c net.Conn) { s.otherTLS(c, &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}}) }))
	}, "does not speak SWP"},
	{"not SWP", "an older TLS", overTLS, func(s *stage) error {
		old := &tls.Config{MaxVersion: tls.VersionTLS12, NextProtos: []string{transport.ALPN}} //nolint:gosec // what is refused
		return s.call(s.raw(func(c net.Conn) { s.otherTLS(c, old) }))
	}, "does not speak SWP"},
	{"denied", "access.deny", overQUIC, func(s *stage) error {
		return s.call(s.turnAway(profiles.SecurityPolicy))
	}, `finds "` + transporttest.Client + `" in its log`},
	{"refused message", "a stream that is reset", overQUIC, func(s *stage) error {
		return s.call(s.resetStreams(profiles.SecurityPolicy))
	}, "refused this message"},
	{"full", "at its bound", overQUIC, func(s *stage) error {
		return s.call(s.turnAway(profiles.RateLimitExceeded))
	}, "is full"},
	{"silent partner", "a method that may be of a partner", both, func(s *stage) error {
		_, err := s.callSilent("b/silent")
		return err
	}, "If b is a partner, it has not answered in time; the endpoint itself answers. There swpd status"},
	{"no answer in time", "a server that says nothing", overTLS, func(s *stage) error {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		return s.callWithin(ctx, s.raw(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }))
	}, "--timeout"},
	{"no answer in time", "a port without a server", overQUIC, func(s *stage) error {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		return s.callWithin(ctx, "swp+quic://127.0.0.1:1")
	}, "UDP"},
	{"idle here", "nothing for as long as the client waits", both, func(s *stage) error {
		s.opts.Endpoint.Bounds.Idle = 50 * time.Millisecond
		_, address := s.serve(endpoint.Options{})
		return s.used(address, func() {})
	}, "this client closed"},
	{"ended after use", "idle for longer than the server waits", both, func(s *stage) error {
		_, address := s.serve(endpoint.Options{Bounds: endpoint.Bounds{Idle: 50 * time.Millisecond}})
		return s.used(address, func() {})
	}, "limits.idle"},
	{"ended after use", "the server stops", both, func(s *stage) error {
		ep, address := s.serve(endpoint.Options{})
		return s.used(address, func() { _ = ep.Close() })
	}, "stops or restarts"},
	{"ended, plaintext", "hangs up", []string{"tcp"}, func(s *stage) error {
		return s.call(s.turnAway(profiles.OK))
	}, "plaintext listener"},
	{"ended, own certificate out of time", "hangs up on an expired certificate", both, func(s *stage) error {
		l := transporttest.Named(transporttest.Client)
		l.NotAfter = time.Now().Add(-time.Minute)
		s.show(l)
		before := func() time.Time { return time.Now().Add(-10 * time.Minute) }
		s.server.Now = before // it lets the certificate in
		return s.call(s.turnAway(profiles.OK))
	}, "expired at "},
	{"partnership", "suspended", overQUIC, func(s *stage) error {
		return s.call(s.turnAwayFor(causes.Suspended.Code()))
	}, "has suspended the partnership with this client; its operator resumes it"},
	{"unserved profile", "no RPC", both, func(s *stage) error {
		return s.call(s.serveWithoutRPC())
	}, "need profile 12 (RPC)"},
	{"ended before use", "access.deny", overTLS, func(s *stage) error {
		return s.call(s.turnAway(profiles.SecurityPolicy))
	}, "does not let this identity in"},
	{"ended before use", "hangs up", both, func(s *stage) error {
		return s.call(s.turnAway(profiles.OK))
	}, "it is full"},
}

// otherTLS is a server that is no SWP.
func (s *stage) otherTLS(c net.Conn, config *tls.Config) {
	config.Certificates = []tls.Certificate{*s.ca.Issue(s.t, transporttest.Named(transporttest.Server))}
	server := tls.Server(c, config)
	if server.Handshake() == nil {
		_, _ = server.Read(make([]byte, 1))
	}
}

// Each advice is given for what it is meant for, and none is there that nothing
// provokes.
func TestEveryAdviceIsProvoked(t *testing.T) {
	provoked := make(map[string]bool)
	for _, p := range provocations {
		provoked[p.name] = true
		for _, kind := range p.kinds {
			t.Run(p.name+"/"+p.how+"/"+kind, func(t *testing.T) {
				err := p.do(newStage(t, kind))
				var e *Explained
				if !errors.As(err, &e) {
					t.Fatalf("error %v, want one that is explained", err)
				}
				if e.advice != p.name || !strings.Contains(e.Error(), p.want) {
					t.Errorf("advice %q:\n%v\nwant %q with %q", e.advice, err, p.name, p.want)
				}
				for _, name := range []string{"client: ", "endpoint: ", "tlsconn: ", "quicconn: ", "transport: "} {
					if strings.Contains(e.Error(), name) {
						t.Errorf("%v\nnames a package: %q", e, name)
					}
				}
			})
		}
	}
	names := make(map[string]bool)
	for _, a := range advices {
		if names[a.name] {
			t.Errorf("two advices are called %q", a.name)
		}
		names[a.name] = true
		if !provoked[a.name] {
			t.Errorf("nothing provokes the advice %q", a.name)
		}
	}
	for name := range provoked {
		if !names[name] {
			t.Errorf("there is no advice %q", name)
		}
	}
}
