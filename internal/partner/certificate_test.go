package partner_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/internal/partner"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

// shown is a connection to a peer that has shown a certificate.
type shown struct {
	transport.Conn
	peer transport.Peer
}

func (s *shown) Peer() *transport.Peer { return &s.peer }

// A session that lasts does not tell that the partner has renewed its certificate, so
// the link looks at its addresses once that comes near its end, and not before.
func TestALinkLooksForTheNextCertificateOfItsPartner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const self, other = "spiffe://a.example/swpd", "spiffe://b.example/swpd"
		far, near := newEnd(t, self), newEnd(t, other)
		const life = 9 * 24 * time.Hour
		begun := time.Now()
		var dials atomic.Int32
		var renewed, down atomic.Bool
		l, err := partner.New(partner.Options{
			Name: "b", Identity: other, Self: func() string { return self }, Addresses: []transport.Addr{{Transport: "tls", Host: "b", Port: 1}},
			Dial: func(context.Context, transport.Addr) (transport.Conn, error) {
				dials.Add(1)
				if down.Load() {
					return nil, errUnreachable
				}
				from := begun
				if renewed.Load() {
					from = time.Now()
				}
				return &shown{far.pipe(), transport.Peer{Identity: other, Transport: "tls", NotBefore: from, NotAfter: from.Add(life)}}, nil
			},
			Attach: near.ep.Attach,
			Ending: func(p *profiles.Peer) bool { return time.Until(p.NotAfter) < life/3 },
			Check:  9 * time.Minute, // before the session ends because it is idle
		})
		if err != nil {
			t.Fatal(err)
		}
		l.Start()
		defer l.Close()
		time.Sleep(life * 2 / 3)
		synctest.Wait()
		if s := l.Status(); dials.Load() != 1 || !s.NotAfter.Equal(begun.Add(life)) {
			t.Fatalf("%d connections, certificate until %v", dials.Load(), s.NotAfter)
		}
		down.Store(true)
		time.Sleep(6 * time.Hour)
		synctest.Wait()
		if n := dials.Load(); n < 5 || n > 7 {
			t.Errorf("%d connections in six hours, want one an hour", n-1)
		}
		if s := l.Status(); !s.Up || !s.NotAfter.Equal(begun.Add(life)) {
			t.Errorf("it forgot what it saw: %+v", s)
		}
		renewed.Store(true)
		down.Store(false)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if s := l.Status(); !s.Up || s.Connects != 1 || s.NotAfter.Before(begun.Add(life*3/2)) {
			t.Errorf("the next certificate is not known: %+v", s)
		}
		before := dials.Load()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if n := dials.Load() - before; n != 0 {
			t.Errorf("%d connections for a certificate that lasts", n)
		}
	})
}
