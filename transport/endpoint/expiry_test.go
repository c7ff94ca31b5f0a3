package endpoint_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

// mortal is a connection whose peer has a certificate that expires.
type mortal struct {
	transport.Conn
	peer transport.Peer
}

func (c *mortal) Peer() *transport.Peer { return &c.peer }

func expiring(conn transport.Conn, end time.Time) transport.Conn {
	c := &mortal{conn, *conn.Peer()}
	c.peer.NotAfter = end
	return c
}

// With certificates of a short life, expiry is the revocation.
func TestTL14ASessionEndsWithTheCertificateOfItsPeer(t *testing.T) {
	for _, busy := range []bool{false, true} {
		virtually(t, func(t *testing.T, pipe pipe) {
			const life = 5 * time.Minute
			goOn := make(chan struct{})
			end := time.Now().Add(life)
			r := newRigOn(t, func() (a, b transport.Conn) {
				a, b = pipe()
				return expiring(a, end), b
			}, endpoint.Options{}, profile(slowEcho(goOn)))
			r.good = nil
			time.Sleep(life - time.Second)
			want := time.Duration(0)
			if busy {
				want = 3 * time.Second
				r.send(t, request("in-flight-------", "x"))
			}
			synctest.Wait()
			if r.sess.Context().Err() != nil {
				t.Fatal("the session has ended before the certificate")
			}
			<-r.sess.Context().Done()
			if late := time.Since(end); late < want || late > want+2*time.Second {
				t.Errorf("busy %v: ended %v after the certificate, want %v", busy, late, want)
			}
			if cause := context.Cause(r.sess.Context()); !errors.Is(cause, endpoint.ErrLapsed) {
				t.Errorf("cause %v", cause)
			}
		})
	}
}

func TestTL14OverTLSAndQUIC(t *testing.T) {
	for _, kind := range []string{"tls", "quic"} {
		t.Run(kind, func(t *testing.T) {
			conn, far := transporttest.Pair(t, kind)
			end := conn.Peer().NotAfter
			if end.IsZero() {
				t.Fatal("no certificate")
			}
			ep, _ := newEndpoint(t, endpoint.Options{Now: func() time.Time { return end }}, profile(echo))
			s := ep.Attach(conn)
			other, _ := newEndpoint(t, endpoint.Options{}, profile(echo))
			client := other.Attach(far)
			for _, one := range []context.Context{s.Context(), client.Context(), far.Context()} {
				select {
				case <-one.Done():
				case <-time.After(transporttest.Patience):
					t.Fatal("the session goes on")
				}
			}
			if cause := context.Cause(s.Context()); !errors.Is(cause, endpoint.ErrLapsed) {
				t.Errorf("cause %v", cause)
			}
			var closed *transport.CloseError
			if kind == "quic" && (!errors.As(context.Cause(far.Context()), &closed) || closed.Code != uint64(profiles.SecurityPolicy)) {
				t.Errorf("the peer was told %v", context.Cause(far.Context()))
			}
		})
	}
}
