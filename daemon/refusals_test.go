package daemon

import (
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/profiles"
)

// The cause reaches the error of a client, the status and the page, readiness and the metric of the refused side, with
// its remedy, over TLS and QUIC, before and after a restart of either side. Nothing is inferred of what the partner
// serves. The matrix of all causes is in internal/partner.
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
		b.writes("a", own(a, "state: suspended\n"))
		b.reloaded()
		refused(causes.Suspended, "before a restart")
		for _, one := range []*organisation{a, b} {
			if err := one.end(); err != nil {
				t.Fatal(err)
			}
			one.again()
			if one == b {
				a.writes("b", own(b, "", b.addrs[transport]))
				a.reloaded()
			}
			refused(causes.Suspended, "after a restart of "+one.name)
		}
		b.writes("a", own(a, ""))
		b.reloaded()
		a.connected("b")
		if got := a.mustDial(a.addrs[transport]).mustAsk(t, "b/modern", modernCall); !strings.Contains(got, sayTool) {
			t.Errorf("let in again: %s", got)
		}
	})
}
