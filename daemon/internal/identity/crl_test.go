package identity

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/transporttest"
)

// written writes a file in a directory.
func written(t *testing.T, dir, name string, text []byte) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// pair writes a certificate and its key.
func pair(t *testing.T, dir string, cert *tls.Certificate) (certFile, keyFile string) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return written(t, dir, "own.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})),
		written(t, dir, "own.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
}

func TestTL18ARevocationListNeverReplacesANewerOne(t *testing.T) {
	ca := transporttest.NewCA(t)
	peer := ca.Issue(t, transporttest.Named("spiffe://peer.example/a"))
	of := []Anchor{{cert: ca.Cert}}
	now := time.Now().Truncate(time.Second)
	old := ca.CRLAt(t, 7, now.Add(-2*time.Hour), now.Add(time.Hour))
	inForce := ca.CRLAt(t, 8, now.Add(-time.Hour), now.Add(time.Hour), peer.Leaf)
	for _, c := range []struct {
		name   string
		text   []byte
		stale  string // empty: it is put in force
		future bool
	}{
		{"the same", inForce, "", false},
		{"a lower number of an earlier time", old, "is older than that with", false},
		{"a lower number of a later time", ca.CRLAt(t, 7, now, now.Add(time.Hour)), "is older than that with", false},
		{"a higher number of an earlier time", ca.CRLAt(t, 9, now.Add(-time.Hour-time.Second), now.Add(time.Hour)), "is older than that with", false},
		{"a higher number of the same time", ca.CRLAt(t, 9, now.Add(-time.Hour), now.Add(time.Hour)), "", false},
		{"a time within the skew", ca.CRLAt(t, 9, now.Add(crlSkew), now.Add(time.Hour)), "", false},
		{"a time behind the skew", ca.CRLAt(t, 9, now.Add(crlSkew+time.Second), now.Add(time.Hour)), "is from the future", true},
		{"both, the newest last", append(slices.Clip(old), inForce...), "", false},
		{"both, the newest first", append(slices.Clip(inForce), old...), "", false},
	} {
		dir := t.TempDir()
		kept := KeptLists{filepath.Join(dir, "crls"), func() time.Time { return now }}
		file := written(t, dir, "list.crl", inForce)
		lists, _, err := kept.Read("trust.crl", []string{file}, of)
		if err == nil {
			err = kept.Keep(lists)
		}
		if err != nil {
			t.Fatal(err)
		}
		written(t, dir, "list.crl", c.text)
		kept = KeptLists{kept.dir, kept.now} // as after a restart
		lists, _, err = kept.Read("trust.crl", []string{file}, of)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		stale := lists.Stale()
		if (stale == nil) != (c.stale == "") || stale != nil && !strings.Contains(stale.Error(), c.stale) {
			t.Errorf("%s: %v, want %q", c.name, stale, c.stale)
		}
		if warned := strings.Join(lists.Warnings(now), " "); c.stale != "" && !strings.Contains(warned, c.stale) {
			t.Errorf("%s: warned of %q", c.name, warned)
		}
		if refused := transport.VerifyClient(ca.Pool(), lists.CRLs(), []*x509.Certificate{peer.Leaf}, now) != nil; c.stale != "" && !refused {
			t.Errorf("%s: the revoked certificate is valid again", c.name)
		}
		if err := kept.Keep(lists); err != nil {
			t.Error(err)
		}

		// The operator can have it all the same, but for the future.
		if err := os.RemoveAll(kept.dir); err != nil {
			t.Fatal(err)
		}
		lists, _, err = kept.Read("trust.crl", []string{file}, of)
		if c.future != (err != nil) || !c.future && lists.Stale() != nil {
			t.Errorf("%s, without the kept list: %v, %v", c.name, err, lists.Stale())
		}
	}
}

func TestTL18AnOlderRevocationListIsNotReloaded(t *testing.T) {
	ca, dir := transporttest.NewCA(t), t.TempDir()
	peer := ca.Issue(t, transporttest.Named("spiffe://peer.example/a"))
	now := time.Now()
	conf := &config.Config{Data: dir}
	conf.Identity.Cert, conf.Identity.Key = pair(t, dir, ca.Issue(t, transporttest.Named("spiffe://own.example/swpd")))
	conf.Trust = config.Trust{CA: []string{written(t, dir, "ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Cert.Raw}))}, CRL: []string{written(t, dir, "list.crl", ca.CRLAt(t, 8, now, now.Add(time.Hour), peer.Leaf))}}
	start := func() *Credentials {
		c, err := New(t.Context(), conf, time.Now, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	revoked := func(c *Credentials) bool {
		return transport.VerifyClient(ca.Pool(), c.Current().CRLs, []*x509.Certificate{peer.Leaf}, now) != nil
	}
	c := start()
	written(t, dir, "list.crl", ca.CRLAt(t, 7, now.Add(-time.Hour), now.Add(time.Hour)))
	if _, err := c.Prepare(conf); err == nil || !strings.Contains(err.Error(), "trust.crl: the revocation list of ") || !strings.Contains(err.Error(), "number 7") {
		t.Errorf("reload: %v", err)
	}
	if c = start(); !revoked(c) || !strings.Contains(strings.Join(c.Warnings(), " "), "is older than that with") {
		t.Errorf("after a restart: revoked %v, warnings %q", revoked(c), c.Warnings())
	}
	written(t, dir, "list.crl", ca.CRLAt(t, 9, now, now.Add(time.Hour)))
	change, err := c.Prepare(conf)
	if err != nil {
		t.Fatal(err)
	}
	if change.Commit(); revoked(c) || len(c.listWarnings()) > 0 {
		t.Errorf("with a newer list: revoked %v, warnings %q", revoked(c), c.Warnings())
	}
}
