package daemon

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

// saysRefused checks that an organisation says of a partner that it refuses this endpoint, for which cause and with
// which remedy: in the error of a client, in status, page and readiness, and in the metric.
func (o *organisation) saysRefused(partner string, number int, cause causes.Cause, when string) {
	o.t.Helper()
	o.until(when+": the cause "+cause.String(), func() bool { l := o.link(partner); return !l.Up && l.Cause == cause.String() })
	words := cause.Words("it", "this endpoint")
	var page string // its data are of up to a second ago
	o.until(when+": the page", func() bool { page = o.event(); return strings.Contains(page, words) })
	_, ready := o.get("/readyz")
	s := o.mustDial(o.addrs[number])
	defer s.Close(profiles.OK)
	for where, said := range map[string]string{
		"status": o.link(partner).Failure, "page": page, "readyz": ready, "client": s.mustAsk(o.t, partner+"/modern", modernCall),
	} {
		if !strings.Contains(said, words) || !strings.Contains(said, cause.Remedy()) || strings.Contains(said, "does not know of") {
			o.t.Errorf("%s, %v: %s says %s", when, cause, where, said)
		}
	}
	o.counts(`swpd_partner_refused{cause="`+cause.String()+`",partner="`+partner+`"}`, "1")
}

// The cause reaches the refused side, over TLS and QUIC, before and after a restart of either side. Nothing is inferred
// of what the partner serves.
func TestPR19TheCauseOfARefusalReachesTheRefusedSide(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		b, a := open(t, "b", modernYAML(t)+"access: {rules: [{identity: '**'}]}\n"), open(t, "a", "")
		b.writes("a", own(a, ""))
		b.reloaded()
		a.writes("b", own(b, "", b.addrs[transport]))
		a.reloaded()
		a.connected("b")
		b.connected("a") // so it knows what a reads
		refused := func(cause causes.Cause, when string) {
			t.Helper()
			a.saysRefused("b", transport, cause, when)
		}
		other := filepath.Join(t.TempDir(), "ca.crt")
		if err := os.WriteFile(other, pemOf("CERTIFICATE", transporttest.NewCA(t).Cert.Raw), 0o600); err != nil {
			t.Fatal(err)
		}
		const admits, denies = "access: {rules:", "access: {deny: ['spiffe://a.example/**'], rules:"
		for _, row := range []struct {
			cause        causes.Cause
			impose, lift func()
		}{
			{causes.Suspended, func() { b.writes("a", own(a, "state: suspended\n")) }, func() { b.writes("a", own(a, "")) }},
			{causes.Ended, func() { b.writes("a", own(a, "valid_until: 2020-01-01\n")) }, func() { b.writes("a", own(a, "")) }},
			{causes.Denied, func() { b.rewrite(admits, denies) }, func() { b.rewrite(denies, admits) }},
			{causes.Untrusted, func() { b.writes("a", strings.Replace(own(a, ""), a.ca(), other, 1)) }, func() { b.writes("a", own(a, "")) }},
			{causes.Revoked, func() { b.writes("a", own(a, "state: revoked\n")) }, nil}, // for good
		} {
			row.impose()
			b.reloaded()
			if row.cause == causes.Untrusted { // the session that is there stays
				if err := b.end(); err != nil {
					t.Fatal(err)
				}
				b.again()
				a.writes("b", own(b, "", b.addrs[transport]))
				a.reloaded()
			}
			refused(row.cause, "before a restart")
			for _, one := range []*organisation{a, b} {
				if err := one.end(); err != nil {
					t.Fatal(err)
				}
				one.again()
				if one == b {
					a.writes("b", own(b, "", b.addrs[transport]))
					a.reloaded()
				}
				refused(row.cause, "after a restart of "+one.name)
			}
			if row.lift == nil {
				return
			}
			row.lift()
			b.reloaded()
			a.connected("b")
			if got := a.mustDial(a.addrs[transport]).mustAsk(t, "b/modern", modernCall); !strings.Contains(got, sayTool) {
				t.Errorf("let in again after %v: %s", row.cause, got)
			}
		}
	})
}

// refuser has the identity of a partner, and closes each connection for one cause.
type refuser struct {
	*organisation
	cause causes.Cause
	whom  *organisation
	ln    transport.Listener
	done  sync.WaitGroup
}

func newRefuser(t *testing.T, cause causes.Cause, whom *organisation) *refuser {
	t.Helper()
	name := cause.String()
	p := &refuser{organisation: &organisation{&running{t: t, dir: t.TempDir()}, name, "spiffe://" + name + ".example/swpd"}, cause: cause, whom: whom}
	if err := devpki.Create(filepath.Join(p.dir, "pki"), devpki.Options{Name: p.identity}); err != nil {
		t.Fatal(err)
	}
	return p
}

// opens listens, and returns the address.
func (p *refuser) opens(kind string) (address string) {
	p.t.Helper()
	files := devpki.Server(filepath.Join(p.dir, "pki"))
	l, err := identity.Read(&config.Config{Identity: config.Identity{Cert: files.Cert, Key: files.Key}, Trust: config.Trust{CA: []string{p.whom.ca()}}}, time.Now)
	if err != nil {
		p.t.Fatal(err)
	}
	p.ln = transporttest.Listen(p.t, kind, &transport.Policy{Credentials: l.Current}, nil)
	tells := &endpoint.Farewells{Reads: func(string) bool { return p.cause.Code() != 0 }}
	p.done.Go(func() {
		for {
			conn, err := p.ln.Accept(context.Background())
			if err != nil {
				return
			}
			tells.Close(conn, p.cause.Code(), &profiles.Error{Code: profiles.SecurityPolicy, Text: p.name})
		}
	})
	return "swp+" + kind + "://" + p.ln.Addr().String()
}

func (p *refuser) closes() {
	_ = p.ln.Close()
	p.done.Wait()
}

// Each cause of the table reaches the refused side in the same way, also those of a partner that is full or shuts down,
// and the end of a session without a cause. It is the same after a restart of either side. The cause of an alert of TLS
// is in the test above.
func TestPR19EachCauseReachesTheRefusedSide(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, number int) {
		kind := []string{"tls", "quic"}[number]
		a := open(t, "a", "")
		var partners []*refuser
		for _, row := range causes.All() {
			if row.Cause != causes.Untrusted {
				partners = append(partners, newRefuser(t, row.Cause, a))
			}
		}
		all := func(when string) {
			t.Helper()
			for _, p := range partners {
				a.saysRefused(p.name, number, p.cause, when)
			}
		}
		open := func() {
			t.Helper()
			for _, p := range partners {
				a.writes(p.name, own(p.organisation, "", p.opens(kind)))
			}
			a.reloaded()
		}
		open()
		all("before a restart")
		if err := a.end(); err != nil {
			t.Fatal(err)
		}
		a.again()
		all("after a restart of this side")
		for _, p := range partners {
			p.closes()
		}
		open()
		all("after a restart of the partner")
		if err := a.end(); err != nil { // before the listeners close
			t.Fatal(err)
		}
		for _, p := range partners {
			p.closes()
		}
	})
}
