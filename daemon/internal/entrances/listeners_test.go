package entrances

import (
	"context"
	"crypto/x509"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/guard"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/transporttest"
)

// shaken is a Listener with connections whose handshakes have ended.
type shaken struct {
	transport.Listener
	conns chan transport.Conn
}

func (s *shaken) Accept(context.Context) (transport.Conn, error) { return <-s.conns, nil }

// A handshake may verify a peer before its authority is removed, and end after it.
func TestTL13AConnectionIsHeldAgainstTheTrustInForceWhenItIsListed(t *testing.T) {
	for _, kind := range []string{"tls", "quic"} {
		t.Run(kind, func(t *testing.T) {
			own, other := transporttest.NewCA(t), transporttest.NewCA(t)
			both := x509.NewCertPool()
			both.AddCert(own.Cert)
			both.AddCert(other.Cert)
			cert := own.Issue(t, transporttest.Named(transporttest.Server))
			var now atomic.Pointer[transport.Credentials]
			now.Store(&transport.Credentials{Certificate: cert, Roots: both})
			ln := transporttest.Listen(t, kind, &transport.Policy{Credentials: now.Load}, nil)
			events := make(chan transport.SecurityEvent, 1)
			keeper, err := guard.New(guard.Options{
				Access: &config.Default().Access, Log: zap.NewNop(), Security: func(e transport.SecurityEvent) { events <- e },
			})
			if err != nil {
				t.Fatal(err)
			}
			done := &shaken{ln, make(chan transport.Conn, 2)}
			l := &listener{Listener: done, refuse: keeper.Refuse}

			ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
			defer cancel()
			dial := func(ca *transporttest.CA, identity string) transport.Conn {
				t.Helper()
				policy := transporttest.PolicyOf(ca.Issue(t, transporttest.Named(identity)), both)
				conn, err := transporttest.Dial(ctx, kind, ln.Addr().String(), policy)
				if err != nil {
					t.Fatal(err)
				}
				accepted, err := ln.Accept(ctx)
				if err != nil {
					t.Fatal(err)
				}
				done.conns <- accepted
				t.Cleanup(func() { _, _ = conn.Close(0), accepted.Close(0) })
				return accepted
			}
			gone := dial(other, "spiffe://test/gone")
			now.Store(&transport.Credentials{Certificate: cert, Roots: own.Pool()})
			kept, closed := keeper.RecheckAll(l.open.List()) // finds nothing yet
			if kept+closed != 0 {
				t.Errorf("%d kept, %d closed", kept, closed)
			}
			dial(own, "spiffe://test/kept")
			conn, err := l.Accept(ctx)
			if err != nil || conn.Peer().Identity != "spiffe://test/kept" {
				t.Fatalf("accepted %v, %v", conn, err)
			}
			if e := <-events; e.Identity != "spiffe://test/gone" || e.Reason != transport.ReasonUntrusted {
				t.Errorf("%+v", e)
			}
			select {
			case <-gone.Context().Done():
			case <-ctx.Done():
				t.Error("the connection is open")
			}
		})
	}
}
