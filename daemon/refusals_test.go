package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport/transporttest"
)

// The cause reaches the error of a client, the status and the page, readiness and the metric of the refused side, with
// its remedy, over TLS and QUIC, before and after a restart of either side. Nothing is inferred of what the partner
// serves. The matrix of all causes, also of a full and a stopping partner, is in internal/partner.
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
			a.until(when+": the cause "+cause.String(), func() bool { l := a.link("b"); return !l.Up && l.Cause == cause.String() })
			words, remedy := cause.Words("it", "this endpoint"), cause.Remedy()
			_, ready := a.get("/readyz")
			s := a.mustDial(a.addrs[transport])
			defer s.Close(profiles.OK)
			for where, said := range map[string]string{
				"status": a.link("b").Failure, "readyz": ready, "client": s.mustAsk(t, "b/modern", modernCall),
			} {
				if !strings.Contains(said, words) || !strings.Contains(said, remedy) || strings.Contains(said, "does not know of") {
					t.Errorf("%s, %v: %s says %s", when, cause, where, said)
				}
			}
			a.counts(`swpd_partner_refused{cause="`+cause.String()+`",partner="b"}`, "1")
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
