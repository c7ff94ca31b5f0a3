package daemon

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/profiles/a2a"
)

// The revocation matrix of links: what is under way for a partner and its callers, and how a
// may take it away.

// revokedLink is organisation a with partner b, at whose end something is under way here.
type revokedLink struct {
	a, b *organisation
}

// revokesLink is a column of the matrix.
type revokesLink struct {
	name  string
	apply func(l *revokedLink)

	keepsLink bool // the identity may connect, and use nothing
	keepsWork bool // tasks go on for the identity
}

var linkColumns = []revokesLink{
	{name: "deny", apply: func(l *revokedLink) {
		l.a.rewrite("access: {rules", "access: {deny: ['spiffe://b.example/swpd'], rules")
	}},
	{name: "rule removed", keepsLink: true, apply: func(l *revokedLink) {
		l.a.rewrite("identity: ['spiffe://a.example/**', 'spiffe://b.example/**']", "identity: ['spiffe://a.example/**']")
	}},
	{name: "partner removed", apply: func(l *revokedLink) {
		l.a.configure(func(text string) string {
			before, _, _ := strings.Cut(text, "partners:\n")
			return before
		})
	}},
	{name: "authority removed", keepsWork: true, apply: func(l *revokedLink) {
		l.a.rewrite("trust: [\""+l.b.ca()+"\"]", "trust: [\""+l.a.ca()+"\"]")
	}},
	{name: "CRL", keepsWork: true, apply: func(l *revokedLink) {
		list := filepath.Join(l.a.dir, "b.crl")
		write(l.a.t, list, l.b.revoked("server"))
		l.a.rewrite("trust: [\""+l.b.ca()+"\"]", "trust: [\""+l.b.ca()+"\"], crl: [b.crl]")
	}},
}

// revoked returns a revocation list of the authority of an organisation.
func (o *organisation) revoked(names ...string) string {
	o.t.Helper()
	pki := filepath.Join(o.dir, "pki")
	issuer, err := tls.LoadX509KeyPair(filepath.Join(pki, "ca.crt"), filepath.Join(pki, "ca.key"))
	if err != nil {
		o.t.Fatal(err)
	}
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(time.Hour)}
	for _, name := range names {
		cert, err := tls.LoadX509KeyPair(filepath.Join(pki, name+".crt"), filepath.Join(pki, name+".key"))
		if err != nil {
			o.t.Fatal(err)
		}
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: cert.Leaf.SerialNumber, RevocationTime: list.ThisUpdate})
	}
	signer, ok := issuer.PrivateKey.(crypto.Signer)
	if !ok {
		o.t.Fatalf("the authority has a key of type %T", issuer.PrivateKey)
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, issuer.Leaf, signer)
	if err != nil {
		o.t.Fatal(err)
	}
	return string(pemOf("X509 CRL", der))
}

// judge has a caller of b use a, takes that away, and compares how it ends.
func (c *revokesLink) judge(t *testing.T, link int) {
	b := open(t, "b", "")
	a := open(t, "a", childYAML(t)+"access: {rules: [{identity: ['spiffe://a.example/**', 'spiffe://b.example/**']}], agents: [{identity: '**', agent_ids: '**'}]}\n")
	b.trusting("a", a)
	a.trusting("b", b, b.addrs[link])
	a.connected("b")
	b.connected("a")
	l := &revokedLink{a, b}

	caller := b.mustDial(b.addrs[0])
	call, release := caller.waits(t, "a/child", caller.begin(t, "a/child"))
	t.Cleanup(release) // keeps the child waiting
	begun, stopped := make(chan struct{}), make(chan string, 1)
	a.agent("far", func(ctx context.Context, _ *a2a.Task, _ func(string, []byte) error) ([]byte, error) {
		close(begun)
		<-ctx.Done()
		stopped <- "stopped"
		return nil, ctx.Err()
	})
	d, err := caller.tasks.Send(t.Context(), caller.Session, &a2a.Task{ID: []byte("at a partner"), Kind: "k"}, a2a.SendOptions{Agent: "a/far"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	<-begun

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	c.apply(l)
	a.reloaded()
	says := func(row, how string) {
		t.Logf("%-14s %4.1f s  %.150s", row, time.Since(began).Seconds(), how)
		if how == "" {
			t.Errorf("%s: it goes on", row)
		}
	}
	if c.keepsLink {
		if !a.up("b") {
			t.Error("the link has ended")
		}
	} else {
		a.until("the end of the link", func() bool { return !a.up("b") })
		says("link", "closed")
	}
	says("MCP call", answered(call)(ctx))
	if c.keepsWork {
		a.counts("swpd_a2a_tasks", "1")
		return
	}
	says("running task", answered(stopped)(ctx))
	a.counts("swpd_a2a_tasks", "0")
}

func TestTL15RevocationOfAPartnerEndsWhatItHasUnderWay(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, link int) {
		for _, c := range linkColumns {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.judge(t, link)
			})
		}
	})
}
