package identity

import (
	"regexp"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
)

func TestEndingIsSaidAMonthOrAThirdOfTheLifeBefore(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Now()
	for _, row := range []struct {
		life, left   time.Duration
		soon, urgent bool
	}{
		{365 * day, 30 * day, false, false}, {365 * day, 30*day - 1, true, false},
		{365 * day, day, true, false}, {365 * day, day - 1, true, true}, {365 * day, -1, true, true},
		{time.Hour, 20 * time.Minute, false, false}, {time.Hour, 20*time.Minute - 1, true, false},
		{time.Hour, 6 * time.Minute, true, false}, {time.Hour, 6*time.Minute - 1, true, true},
	} {
		end := now.Add(row.left)
		if soon, urgent := Ending(end.Add(-row.life), end, now); soon != row.soon || urgent != row.urgent {
			t.Errorf("life %v, left %v: soon %v, urgent %v", row.life, row.left, soon, urgent)
		}
	}
}

func TestAuthoritiesThatEndSoonAreSaid(t *testing.T) {
	dir, partners := t.TempDir(), t.TempDir()
	if err := devpki.Create(dir, devpki.Options{Name: "spiffe://a.example/swpd"}); err != nil {
		t.Fatal(err)
	}
	issued := time.Now().Add(-365 * 24 * time.Hour) // so that it ends a year before the other
	if err := devpki.Create(partners, devpki.Options{Now: func() time.Time { return issued }}); err != nil {
		t.Fatal(err)
	}
	f, theirs := devpki.Server(dir), devpki.Server(partners).CA
	cr, err := New(t.Context(), &config.Config{
		Identity: config.Identity{Cert: f.Cert, Key: f.Key}, Trust: config.Trust{CA: []string{f.CA}},
		Partners: config.Partners{"b": {Identity: "spiffe://b.example/swpd", Trust: []string{theirs}}},
	}, time.Now, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	var end time.Time
	for _, a := range cr.current.Load().list() {
		if a.partner == "b" {
			end = a.cert.NotAfter
		}
	}
	if end.IsZero() {
		t.Fatal("the authority of the partner is not known")
	}
	for _, row := range []struct {
		now  time.Time
		want []string
	}{
		{end.Add(-31 * 24 * time.Hour), nil},
		{end.Add(-29 * 24 * time.Hour), []string{"^partner b: the authority .* in " + theirs + " ends at .*; ask the partner for the next one$"}},
		{end.Add(time.Hour), []string{"^partner b: .* ended at .*; take it out"}},
		{end.Add(340 * 24 * time.Hour), []string{"^trust.ca: the authority .* in " + f.CA + " ends at ", "^partner b: .* ended at "}},
	} {
		cr.now = func() time.Time { return row.now }
		got := cr.anchorWarnings()
		if len(got) != len(row.want) {
			t.Errorf("%v: %q", row.now, got)
			continue
		}
		for i, want := range row.want {
			if !regexp.MustCompile(want).MatchString(got[i]) {
				t.Errorf("%q, want %s", got[i], want)
			}
		}
	}
}

func TestCertificateThatEndsSoonIsSaid(t *testing.T) {
	dir := t.TempDir()
	issued := time.Now()
	if err := devpki.Create(dir, devpki.Options{Now: func() time.Time { return issued }}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		left            time.Duration
		warning, urgent bool
	}{{200 * 24 * time.Hour, false, false}, {20 * 24 * time.Hour, true, false}, {time.Hour, true, true}, {-time.Hour, true, true}} {
		cr := credentialsIn(t, dir)
		end := cr.current.Load().Certificate.Leaf.NotAfter
		cr.now = func() time.Time { return end.Add(-tt.left) }
		reason, urgent := cr.expiry()
		if (reason != "") != tt.warning || urgent != tt.urgent {
			t.Errorf("%v left: %q, urgent %v", tt.left, reason, urgent)
		}
	}
}

func credentialsIn(t *testing.T, dir string) *Credentials {
	t.Helper()
	f := devpki.Server(dir)
	c := &config.Config{Identity: config.Identity{Cert: f.Cert, Key: f.Key}, Trust: config.Trust{CA: []string{f.CA}}}
	cr, err := New(t.Context(), c, time.Now, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return cr
}
