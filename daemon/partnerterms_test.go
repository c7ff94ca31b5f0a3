package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/guard"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/transport"
)

// writes replaces the file of a partner, or removes it if text is empty.
func (o *organisation) writes(name, text string) {
	o.t.Helper()
	file := config.PartnerFile(filepath.Join(o.dir, "swpd.yaml"), name)
	if text == "" {
		if err := os.Remove(file); err != nil {
			o.t.Fatal(err)
		}
		return
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		o.t.Fatal(err)
	}
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		o.t.Fatal(err)
	}
}

// own is the content of a file for a partner.
func own(of *organisation, more string, addresses ...string) string {
	return fmt.Sprintf("identity: %q\ntrust: [%q]\naddresses: [%s]\n%s", of.identity, of.ca(), strings.Join(addresses, ", "), more)
}

func TestAPartnerInAFileOfItsOwnIsSuspendedAndComesBack(t *testing.T) {
	t.Parallel()
	const nobody = "access: {rules: [{identity: 'spiffe://b.example/**'}]}\n"
	b := open(t, "b", modernYAML(t)+nobody)
	a := open(t, "a", "")
	const may = "allow: [{profile: mcp, operation: tools/call, name: modern/exact}]\n"
	b.writes("a", own(a, may)) // found without a signal
	a.writes("b", own(b, "", b.addrs[0]))
	a.reloaded()
	a.connected("b")
	s := a.mustDial(a.addrs[0])
	asks := func() string { return s.mustAsk(t, "b/modern", modernCall) }
	if got := asks(); !strings.Contains(got, sayTool) {
		t.Fatalf("a tool that the file allows: %s", got)
	}

	b.writes("a", own(a, may+"state: suspended\n"))
	b.reloaded()
	b.await(`partner a is suspended`)
	a.until("the end of the link", func() bool { return !a.up("b") })
	if got := b.link("a").Barred; got != "partner a is suspended" {
		t.Errorf("status: barred %q", got)
	}

	a.writes("b", own(b, "state: suspended\n", b.addrs[0]))
	a.reloaded()
	if got := asks(); !strings.Contains(got, "partner b is suspended") || !strings.Contains(got, "ERR_SECURITY_POLICY") {
		t.Errorf("a request for a suspended partner: %s", got)
	}
	if _, ready := a.get("/readyz"); !strings.Contains(ready, "partner b is suspended: it is not let in, and nothing is sent to it; swpd partner resume") || strings.Contains(ready, "away") {
		t.Errorf("/readyz: %s", ready)
	}

	b.writes("a", own(a, may))
	b.reloaded()
	a.writes("b", own(b, "", b.addrs[0]))
	a.reloaded()
	a.await(`"msg":"partner is let in again"`)
	a.connected("b")
	if got := asks(); !strings.Contains(got, sayTool) {
		t.Errorf("after its return: %s", got)
	}

	b.writes("a", own(a, ""))
	b.reloaded()
	if got := asks(); !strings.Contains(got, "ERR_SECURITY_POLICY") {
		t.Errorf("without the rule: %s", got)
	}
	a.writes("b", "") // removed
	a.reloaded()
	if got := asks(); strings.Contains(got, sayTool) {
		t.Errorf("without the partner: %s", got)
	}
}

// To keep a partner out does not wait until other faults of the configuration are corrected.
func TestAPartnerIsKeptOutAlthoughTheConfigurationIsFaulty(t *testing.T) {
	t.Parallel()
	b, a := filed(t, "")
	b.configure(func(text string) string { return text + "nonsense: 1\n" })
	b.writes("a", own(a, "state: suspended\nalso: nonsense\n"))
	a.until("the end of the link", func() bool { return !a.up("b") })
	b.await("partners are kept out, as their files say, although the configuration is faulty")
	b.until("the reason", func() bool { return strings.Contains(b.link("a").Barred, "partner a is suspended") })

	// Nobody comes in that way.
	b.writes("a", own(a, ""))
	if answer := b.reloads(); len(answer.Problems) != 1 || !strings.Contains(answer.Problems[0], "nonsense") || b.link("a").Barred == "" {
		t.Errorf("%+v", answer)
	}
	b.configure(func(text string) string { return strings.Replace(text, "nonsense: 1\n", "", 1) })
	b.reloaded()
	a.connected("b")
}

// A refused entry takes away no rights and gives none; to keep out a partner that there is does not wait for
// its correction.
func TestNothingOfARefusedPartnerEntryIsInForce(t *testing.T) {
	t.Parallel()
	b, a := filed(t, "")
	evil := open(t, "evil", "")
	takes := func(more string) {
		t.Helper()
		b.writes("thief", fmt.Sprintf("identity: %q\ntrust: [%q]\nnamed_only: true\n%s", "spiffe://b.example/agent", evil.ca(), more))
		answer := b.reloads()
		if len(answer.Problems) != 1 || !strings.Contains(answer.Problems[0], "partners.thief.identity") {
			t.Errorf("%q: problems %q", more, answer.Problems)
		}
		if len(answer.Changed) > 0 {
			t.Errorf("%q: taken up %q", more, answer.Changed)
		}
	}
	for _, more := range []string{"", "state: suspended\n", "valid_until: 2020-01-01\n", "allow: [{profile: rpc}]\n"} {
		takes(more)
	}

	b.writes("a", own(a, "state: suspended\n"))
	if answer := b.reloads(); len(answer.Problems) != 1 || !slices.Equal(answer.Changed, []string{"access.deny"}) {
		t.Errorf("a partner is suspended beside a refused one: %+v", answer)
	}
	a.until("the end of the link", func() bool { return !a.up("b") })

	b.writes("a", own(a, ""))
	b.writes("thief", "")
	b.reloaded()
	a.connected("b")
}

func TestAPartnerIsNotLetInAfterItsLastDay(t *testing.T) {
	t.Parallel()
	b, a := open(t, "b", ""), open(t, "a", "")
	b.writes("a", own(a, ""))
	b.reloaded()
	a.writes("b", own(b, "", b.addrs[1]))
	a.reloaded()
	a.connected("b")
	end := time.Now().Add(time.Second).UTC().Format(time.RFC3339)
	b.writes("a", own(a, "valid_until: "+end+"\n"))
	b.await("partner a was valid until " + end)
	a.until("the end of the link", func() bool { return !a.up("b") })
	b.until("the state", func() bool { return b.link("a").Barred == "partner a was valid until "+end })
}

// A denial that begins by the clock takes effect without a change of a file, and not before.
func TestADenialBeginsByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := time.Now().Add(time.Hour)
		c := config.Default()
		c.Access = config.Everything("acme.example")
		c.Access.Deny = config.Denials{{Identity: config.List{"acme.example"}, Why: "partner acme was valid until then", From: end}}
		r := (*reloader)(nil)
		g, err := guard.New(guard.Options{
			Access: &c.Access, Log: zap.NewNop(), Running: func() *config.Config { return r.running.Load() },
			Changed: func(func(identity, server string) bool) {}, Security: func(transport.SecurityEvent) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		var held atomic.Int32
		r = newReloader(c, nil, []part.Section{guard.Section(g.Prepare)}, zap.NewNop())
		r.hold, r.identity = func() { held.Add(1) }, func() string { return "" }
		ctx, stop := context.WithCancel(t.Context())
		go r.Serve(ctx)
		time.Sleep(time.Hour - time.Nanosecond)
		synctest.Wait()
		if err := g.Deny("acme.example"); err != nil || held.Load() != 0 || !g.Would("acme.example", "rpc", "call", "find") {
			t.Errorf("before: %v, peers checked %d times", err, held.Load())
		}
		time.Sleep(pollEvery + time.Nanosecond)
		synctest.Wait()
		if err := g.Deny("acme.example"); err == nil || err.Error() != "partner acme was valid until then" || held.Load() != 1 || g.Would("acme.example", "rpc", "call", "find") {
			t.Errorf("after: %v, peers checked %d times", err, held.Load())
		}
		stop()
		synctest.Wait()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Tasks for a partner that is not let in are denied with the reason. Deliveries wait for one that
// is suspended, and are refused after the end of a partnership.
func TestNothingWaitsForAPartnershipThatHasEnded(t *testing.T) {
	t.Parallel()
	b, a := open(t, "b", ""), open(t, "a", "")
	_, s := relayPeer(t, a.running, a.addrs[0])
	tasks := a.mustDial(a.addrs[0])
	for i, c := range []struct{ terms, refusal string }{
		{"state: suspended\n", "partner b is suspended"},
		{"valid_until: 2020-12-31\n", "partner b was valid until 2020-12-31"},
		{"state: suspended\nvalid_until: 2020-12-31\n", "partner b is suspended"},
		{"state: revoked\n", "partner b is revoked"},
	} {
		a.writes("b", own(b, c.terms, b.addrs[0]))
		a.reloaded()
		err := publishing(t, s, "b/t", fmt.Sprint(i), 10)
		if i == 0 && err != nil {
			t.Errorf("%q: %v", c.terms, err)
		}
		if i > 0 {
			refusedBy(t, c.terms, err, profiles.SecurityPolicy.Alias(), a)
			if err == nil || !strings.Contains(err.Error(), c.refusal) {
				t.Errorf("%q: %v, want %q", c.terms, err, c.refusal)
			}
		}
		_, result := tasks.hand(t, &a2a.Task{Kind: "k"}, a2a.SendOptions{Agent: "b/far"})
		if result.OK || result.Reason != "denied: "+c.refusal {
			t.Errorf("%q: a task: %+v", c.terms, result)
		}
	}
}

// A date is announced in the log, too, once for each warning.
func TestTheEndOfAPartnershipIsAnnouncedInTheLog(t *testing.T) {
	t.Parallel()
	b, a := open(t, "b", ""), open(t, "a", "")
	end := time.Now().Add(config.NoticeTime + 2*time.Second).UTC().Format(time.RFC3339)
	a.writes("b", own(b, "valid_until: "+end+"\n", b.addrs[0]))
	a.reloaded()
	warning := "partner b is valid until " + end + " and is not let in after that"
	a.await(warning)
	a.reloaded()
	if n := strings.Count(a.log.String(), warning); n != 1 {
		t.Errorf("%d times in the log: %s", n, a.log)
	}
}
