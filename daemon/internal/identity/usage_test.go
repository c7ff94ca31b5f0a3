package identity

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/tlsconn"
	"github.com/slimwire/swp/transport/transporttest"
)

func TestACertificateThatMayNotDialIsNamedWithItsRemedy(t *testing.T) {
	transporttest.NoLeaks(t)
	ca := transporttest.NewCA(t)
	ln := map[string]transport.Listener{}
	refusals := make(chan transport.SecurityEvent, 8)
	for _, kind := range []string{"tls", "quic"} {
		ln[kind] = transporttest.Listen(t, kind, ca.Policy(t, transporttest.Server), func(e transport.SecurityEvent) { refusals <- e })
	}
	for _, c := range []struct {
		usage             []x509.ExtKeyUsage
		dialling, serving bool // warned of
	}{
		{nil, false, false}, // both
		{[]x509.ExtKeyUsage{x509.ExtKeyUsageAny}, false, false},
		{[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, true, false},
		{[]x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, false, true},
		{[]x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection}, true, true},
	} {
		leaf := transporttest.Named("spiffe://own.example/swpd")
		leaf.EKU = c.usage
		l := &loaded{identity: "spiffe://own.example/swpd", file: "own.crt"}
		l.Certificate, l.Roots = ca.Issue(t, leaf), ca.Pool()
		cr := &Credentials{now: time.Now}
		cr.current.Store(l)
		warned := strings.Join(cr.Warnings(), "\n")
		for text, want := range map[string]bool{"lacks the extended key usage clientAuth": c.dialling, "lacks the extended key usage serverAuth": c.serving} {
			if strings.Contains(warned, text) != want {
				t.Errorf("%v: warned of %q, want %q: %v", c.usage, warned, text, want)
			}
		}
		if (cr.DialFault() != "") != c.dialling {
			t.Errorf("%v: %q", c.usage, cr.DialFault())
		}
		if !c.dialling {
			continue
		}
		// The peer says "bad certificate", as for an unknown authority. The lead is the right one all the same.
		policy := &transport.Policy{Credentials: cr.Current, Expect: transporttest.Server}
		events := make(chan transport.SecurityEvent, 8)
		note := func(e transport.SecurityEvent) { events <- e }
		if conn, err := tlsconn.Dial(t.Context(), ln["tls"].Addr().String(), policy, tlsconn.Options{OnSecurity: note}); err == nil {
			_ = transporttest.NewRaw(t, conn).ExpectEnd()
			_ = conn.Close(0)
		}
		if conn, err := quicconn.Dial(t.Context(), ln["quic"].Addr().String(), policy, quicconn.Options{OnSecurity: note}); err == nil {
			_, _ = conn.Accept(t.Context())
			_ = conn.Close(0)
		}
		for range 2 {
			if e := <-refusals; e.Reason != transport.ReasonUntrusted {
				t.Errorf("the other end: %+v", e)
			} else if _, do := cr.Explain(&e); !strings.Contains(do, "clientAuth") {
				t.Errorf("%s: the other end is advised %q", e.Transport, do)
			}
		}
		for len(events) > 0 {
			e := <-events
			if _, do := cr.Explain(&e); do != cr.DialFault() {
				t.Errorf("%s: %+v: advised %q", e.Transport, e, do)
			}
			t.Log(e.Transport, e.Reason, e.Identity, e.Err)
		}
	}
}
