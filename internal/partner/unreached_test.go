package partner

import (
	"strings"
	"testing"

	"github.com/slimwire/swp/internal/causes"
	"github.com/slimwire/swp/transport"
)

func TestARefusedCertificateThatMayNotDialIsTheCause(t *testing.T) {
	const own = "the certificate of this endpoint lacks clientAuth"
	for _, c := range []struct {
		err       error
		own, want string
	}{
		{transport.RemoteAlert(42), own, "; " + own},
		{transport.RemoteAlert(42), "", "; " + causes.Untrusted.Remedy()},
		{refusal(causes.Denied, transport.RemoteAlert(42)), own, "; " + causes.Denied.Remedy()},
	} {
		l, err := New(Options{Name: "b", Identity: "spiffe://b.example/swpd", Self: func() string { return "spiffe://a.example/swpd" }, DialFault: func() string { return c.own }})
		if err != nil {
			t.Fatal(err)
		}
		got := l.blame(ending(c.err)).Error()
		if l.Close(); !strings.HasSuffix(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
