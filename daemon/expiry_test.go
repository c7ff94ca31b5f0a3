package daemon

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
)

// What a partner has shown is known here before it ends: as a warning, in the status and
// as a metric. What it shows after it has renewed it takes that back.
func TestTheEndOfAPartnersCertificateIsSaidBefore(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		dir := t.TempDir()
		pki := filepath.Join(dir, "pki")
		issued := time.Now().Add(-350 * 24 * time.Hour)
		if err := devpki.Create(pki, devpki.Options{Name: "spiffe://b.example/swpd", Now: func() time.Time { return issued }}); err != nil {
			t.Fatal(err)
		}
		b := &organisation{startIn(t, dir, "access: {rules: [{identity: '**'}]}\n"), "b", "spiffe://b.example/swpd"}
		a := open(t, "a", "")
		b.trusting("a", a)
		a.trusting("b", b, b.addrs[transport])
		a.connected("b")
		b.connected("a")

		const warning = "warning: partner b: the certificate that it showed last ends at "
		if status, body := a.get("/readyz"); status != 200 || !strings.Contains(body, warning) {
			t.Errorf("/readyz: %d %s", status, body)
		}
		if _, body := a.get("/status"); !strings.Contains(body, `"certificate_not_after":"`) || !strings.Contains(body, `"file":"shown by partner b"`) {
			t.Errorf("/status: %s", body)
		}
		if _, body := b.get("/readyz"); strings.Contains(body, "partner a") {
			t.Errorf("/readyz of the other: %s", body)
		}
		_, metrics := a.get("/metrics")
		for _, name := range []string{"swpd_certificate_expiry_timestamp_seconds ", `swpd_partner_certificate_expiry_timestamp_seconds{partner="b"} `, `swpd_partner_authority_expiry_timestamp_seconds{partner="b"} `} {
			if !strings.Contains(metrics, "\n"+name) {
				t.Errorf("no metric %s", name)
			}
		}

		authority, err := devpki.Open(pki)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := authority.Renew(devpki.Server(pki), false, 0, time.Now()); err != nil {
			t.Fatal(err)
		}
		b.reloaded()
		// Another link is another handshake.
		a.rewrite("  b: {", "  b: {in_flight: 17, ")
		a.reloaded()
		a.until("the new certificate", func() bool {
			_, body := a.get("/readyz")
			return a.up("b") && !strings.Contains(body, warning)
		})
	})
}

// The certificate of the HTTP fronts may be another than that of the endpoint.
func TestTheEndOfTheCertificateOverHTTPIsSaidBefore(t *testing.T) {
	dir := t.TempDir()
	issued := time.Now().Add(-350 * 24 * time.Hour)
	for name, o := range map[string]devpki.Options{"pki": {}, "web": {Now: func() time.Time { return issued }}} {
		if err := devpki.Create(filepath.Join(dir, name), o); err != nil {
			t.Fatal(err)
		}
	}
	d := startIn(t, dir, "http: {address: '127.0.0.1:0', anonymous: guest, tls: {cert: web/server.crt, key: web/server.key, ca: [web/ca.crt]}}\n")
	file := filepath.Join(dir, "web", "server.crt")
	warning := "http.tls: certificate " + file + " ends at "
	if status, body := d.get("/readyz"); status != 200 || !strings.Contains(body, "warning: "+warning) || strings.Contains(body, "http.tls.ca: ") {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if _, body := d.get("/status"); !strings.Contains(body, `"file":"`+file+`"`) || !strings.Contains(body, `"file":"`+filepath.Join(dir, "web", "ca.crt")+`"`) {
		t.Errorf("/status: %s", body)
	}
	const metric = "\nswpd_http_certificate_expiry_timestamp_seconds "
	if _, metrics := d.get("/metrics"); !strings.Contains(metrics, metric) {
		t.Errorf("no metric %s", metric)
	}
	c, err := config.Load(filepath.Join(dir, "swpd.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := check.Read(c); err != nil || !strings.Contains(strings.Join(p.Warnings, "\n"), warning) {
		t.Errorf("Check: %+v, %v", p, err)
	}
	authority, err := devpki.Open(filepath.Join(dir, "web"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authority.Renew(devpki.Server(filepath.Join(dir, "web")), false, 0, time.Now()); err != nil {
		t.Fatal(err)
	}
	d.reloaded()
	if _, body := d.get("/readyz"); strings.Contains(body, warning) {
		t.Errorf("/readyz once it was renewed: %s", body)
	}
	d.await(`"msg":"http reloaded"`)
}
