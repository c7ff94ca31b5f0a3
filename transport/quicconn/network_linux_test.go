package quicconn_test

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/internal/netcut"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(apart{m}) }

// apart runs tests in a separate network, where that can be made.
type apart struct{ *testing.M }

func (m apart) Run() int { return netcut.Run(m.M.Run) }

// hosts are a client and a server at two hosts, with a router between them.
type hosts struct {
	client, server *netcut.Host
	ca             *transporttest.CA
	ln             *quicconn.Listener
}

// newHosts makes the hosts. The certificate of the server is also valid for the addresses of others.
func newHosts(t *testing.T, others ...*netcut.Host) *hosts {
	t.Helper()
	h := &hosts{client: host(t), server: host(t), ca: transporttest.NewCA(t)}
	leaf := transporttest.Named(transporttest.Server)
	for _, one := range append(others, h.server) {
		leaf.IPs = append(leaf.IPs, one.Addr())
	}
	policy := h.ca.PolicyWith(t, leaf)
	err := h.server.Do(func() (err error) {
		h.ln, err = quicconn.Listen(h.server.Addr()+":0", policy, quicconn.Options{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.ln.Close() })
	return h
}

func host(t *testing.T) *netcut.Host {
	t.Helper()
	h, err := netcut.NewHost()
	if errors.Is(err, netcut.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func (h *hosts) dial(t *testing.T, wait time.Duration) (conn transport.Conn, err error) {
	t.Helper()
	return h.dialAt(t, h.ln.Addr().String(), wait)
}

func (h *hosts) dialAt(t *testing.T, address string, wait time.Duration) (conn transport.Conn, err error) {
	t.Helper()
	ctx := patience(t)
	done := h.client.Do(func() error {
		conn, err = quicconn.Dial(ctx, address, h.ca.Policy(t, transporttest.Client), quicconn.Options{HandshakeTimeout: wait})
		return nil
	})
	return conn, errors.Join(err, done)
}

// The hop to the client announces its MTU and the hop from the client does not, as with a filter of ICMP.
func TestAHopWithAnMTUOf1280CarriesConnections(t *testing.T) {
	h := newHosts(t)
	if err := errors.Join(h.client.Narrow(1280), h.server.Narrow(1280)); err != nil {
		t.Fatal(err)
	}
	client, err := h.dial(t, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(0) })
	server, err := h.ln.Accept(patience(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close(0) })
	carries(t, client, server)
	carries(t, server, client)
}

// A path that loses everything, or everything to the client, ends the handshake at its timeout, and
// carries connections when it is mended.
func TestANetworkThatLosesPacketsEndsTheHandshake(t *testing.T) {
	h := newHosts(t)
	mend, err := netcut.Cut(h.server, h.client)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.dial(t, 200*time.Millisecond); err == nil {
		t.Error("connected over a path that is half open")
	}
	other, err := netcut.Cut(h.client, h.server)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.dial(t, 200*time.Millisecond); err == nil {
		t.Error("connected over a black hole")
	}
	if err := errors.Join(mend(), other()); err != nil {
		t.Fatal(err)
	}
	client, err := h.dial(t, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = client.Close(0)
}

// A NAT at a third host forgets the client: its old port answers by ICMP, and the server sees the client at a new one.
func TestAConnectionSurvivesANATOfAnotherHostThatForgets(t *testing.T) {
	nat := host(t)
	h := newHosts(t, nat)
	path := transporttest.NewPathAt(t, nat, h.ln.Addr().String())
	client, err := h.dialAt(t, path.Addr(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(0) })
	server, err := h.ln.Accept(patience(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close(0) })
	for range 3 {
		carries(t, client, server)
		path.Forget()
	}
	carries(t, client, server)
	carries(t, server, client)
}
