package transport_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/transporttest"
)

func parsed(t *testing.T, text []byte, of ...*x509.Certificate) []*transport.CRL {
	t.Helper()
	crls, err := transport.ParseCRLs(text, of)
	if err != nil {
		t.Fatal(err)
	}
	return crls
}

// A certificate in the list of its authority is refused at the handshake, whichever side
// shows it, and by Recheck.
func TestTL18ARevokedCertificateIsRefused(t *testing.T) {
	for _, kind := range []string{"tls", "quic"} {
		t.Run(kind, func(t *testing.T) {
			ca := transporttest.NewCA(t)
			server, client := ca.Issue(t, transporttest.Named(transporttest.Server)), ca.Issue(t, transporttest.Named(transporttest.Client))
			var here, there atomic.Pointer[transport.Credentials]
			here.Store(&transport.Credentials{Certificate: server, Roots: ca.Pool()})
			there.Store(&transport.Credentials{Certificate: client, Roots: ca.Pool()})
			ln := transporttest.Listen(t, kind, &transport.Policy{Credentials: here.Load}, nil)
			ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
			defer cancel()
			dial := func() (transport.Conn, error) {
				return transporttest.Dial(ctx, kind, ln.Addr().String(), &transport.Policy{Credentials: there.Load, Expect: transporttest.Server})
			}
			conn, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(0) }()
			accepted, err := ln.Accept(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = accepted.Close(0) }()
			for what, side := range map[string]struct {
				of   transport.Conn
				of2  *atomic.Pointer[transport.Credentials]
				cert *tls.Certificate
			}{"accepted": {accepted, &here, client}, "dialled": {conn, &there, server}} {
				before := side.of2.Load()
				for revoked, want := range map[bool]bool{true: true, false: false} {
					next := *before
					list := ca.CRL(t, time.Hour)
					if revoked {
						list = ca.CRL(t, time.Hour, side.cert.Leaf)
					}
					next.CRLs = parsed(t, list, ca.Cert)
					side.of2.Store(&next)
					err := side.of.(transport.Rechecker).Recheck()
					if (err != nil) != want || want && !strings.Contains(err.Error(), "has revoked the certificate") {
						t.Errorf("%s, revoked %v: %v", what, revoked, err)
					}
				}
				side.of2.Store(before)
			}
			next := *there.Load()
			next.CRLs = parsed(t, ca.CRL(t, time.Hour, server.Leaf), ca.Cert)
			there.Store(&next)
			if conn, err := dial(); err == nil {
				_ = conn.Close(0)
				t.Error("connected to a revoked peer")
			}
		})
	}
}

func TestTL18ARevokedIntermediateRevokesWhatItHasIssued(t *testing.T) {
	root := transporttest.NewCA(t)
	between := root.Intermediate(t)
	leaf := between.Issue(t, transporttest.Named(transporttest.Client))
	var chain []*x509.Certificate
	for _, der := range leaf.Certificate {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, cert)
	}
	for what, crls := range map[string][]*transport.CRL{
		"intermediate": parsed(t, root.CRL(t, time.Hour, between.Cert), root.Cert),
		"leaf":         parsed(t, between.CRL(t, time.Hour, chain[0]), root.Cert, between.Cert),
		"expired list": parsed(t, root.CRL(t, -time.Minute, between.Cert), root.Cert),
	} {
		if transport.VerifyClient(root.Pool(), crls, chain, time.Now()) == nil {
			t.Errorf("%s: not refused", what)
		}
	}
	for what, crls := range map[string][]*transport.CRL{
		"none":                      nil,
		"another number":            parsed(t, root.CRL(t, time.Hour, root.Cert), root.Cert),
		"of the root, for the leaf": parsed(t, root.CRL(t, time.Hour, chain[0]), root.Cert), // it has not issued it
	} {
		if err := transport.VerifyClient(root.Pool(), crls, chain, time.Now()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestTL18ListsOfNobodyKnownAreRefused(t *testing.T) {
	ca, other := transporttest.NewCA(t), transporttest.NewCA(t)
	good := ca.CRL(t, time.Hour)
	block, _ := pem.Decode(good)
	if _, err := transport.ParseCRLs(block.Bytes, []*x509.Certificate{ca.Cert}); err != nil {
		t.Errorf("DER: %v", err)
	}
	for what, text := range map[string][]byte{
		"of another of the same name": other.CRL(t, time.Hour), "empty": nil, "nothing": []byte("nothing"),
		"a certificate": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Cert.Raw}),
		"one of two":    append(append([]byte{}, good...), other.CRL(t, time.Hour)...),
	} {
		if _, err := transport.ParseCRLs(text, []*x509.Certificate{ca.Cert}); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
}
