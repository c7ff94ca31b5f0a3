package devpki

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slimwire/swp/transport"
)

func leaf(t *testing.T, f Files) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func TestCreateMakesIdentitiesThatTheAuthorityVouchesFor(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if err := Create(dir, Options{Name: "spiffe://example.org/edge", Hosts: []string{"edge.example", "192.0.2.1"}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(Server(dir).CA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	server, client := leaf(t, Server(dir)), leaf(t, Client(dir))
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "edge.example", "192.0.2.1"} {
		if _, err := server.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("server at %s: %v", host, err)
		}
	}
	if _, err := client.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	for cert, want := range map[*x509.Certificate]string{server: "spiffe://example.org/edge", client: "spiffe://example.org/swp-client"} {
		if id, err := transport.Identity(cert); err != nil || id != want {
			t.Errorf("identity %q, %v, want %q", id, err, want)
		}
	}
}

func TestKeysAreReadableByThisUserOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if err := Create(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".", "ca.key", "server.key", "client.key"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}

func TestCreateOverwritesNothing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "client.key")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Create(dir, Options{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v, want ErrExist", err)
	}
	if b, _ := os.ReadFile(file); string(b) != "mine" {
		t.Errorf("the file is %q now", b)
	}
}

func TestEnsureKeepsWhatLastsAndRenewsWhatDoesNot(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	opts := Options{Now: func() time.Time { return now }}
	ensure := func() (ca, server string) {
		t.Helper()
		if err := Ensure(dir, opts); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(Server(dir).CA)
		if err != nil {
			t.Fatal(err)
		}
		return string(b), leaf(t, Server(dir)).SerialNumber.String()
	}
	ca1, first := ensure()
	_, again := ensure()
	now = now.Add(leafLife - renewBefore)
	ca2, renewed := ensure()
	if first != again || first == renewed || ca1 != ca2 {
		t.Errorf("serial numbers %s, %s, %s; authority kept: %v", first, again, renewed, ca1 == ca2)
	}
}

func TestNamesThatAreNoIdentityAreRefused(t *testing.T) {
	for _, name := range []string{"swpd", "https://a/b", "spiffe://", "spiffe://a", "spiffe://a/", "spiffe://a/b?c", "spiffe://a:1/b", "spiffe://u@a/b"} {
		if err := Create(t.TempDir(), Options{Name: name}); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}

func TestIssueMakesAnIdentityInADirectoryOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	pki, own := filepath.Join(dir, "pki"), filepath.Join(dir, "planner")
	if err := Create(pki, Options{Name: "spiffe://example.org/edge"}); err != nil {
		t.Fatal(err)
	}
	a, err := Open(pki)
	if err != nil {
		t.Fatal(err)
	}
	f, err := a.Issue(own, Request{Name: "spiffe://example.org/agents/planner"})
	if err != nil || f != Client(own) || !f.Exist() {
		t.Fatalf("%+v, %v", f, err)
	}
	if id, err := transport.Identity(leaf(t, f)); err != nil || id != "spiffe://example.org/agents/planner" {
		t.Errorf("identity %q, %v", id, err)
	}
	if _, err := a.Issue(own, Request{Name: "spiffe://example.org/agents/planner"}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the second time: %v, want ErrExist", err)
	}
	other := filepath.Join(dir, "other")
	if err := Create(other, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(Server(other).Cert); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Issue(other, Request{Name: "spiffe://example.org/x", Server: true}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("beside another authority: %v, want ErrExist", err)
	}
	if _, err := Open(own); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory without the key of the authority: %v, want ErrNotExist", err)
	}
}

func TestALeafEndsBeforeItsAuthority(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	if err := Create(dir, Options{Now: func() time.Time { return now }}); err != nil {
		t.Fatal(err)
	}
	a, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	end := a.identity.cert.NotAfter
	r := Request{Name: "spiffe://localhost/x", Now: func() time.Time { return end.Add(-time.Hour) }, Life: time.Hour}
	if _, err := a.Issue(filepath.Join(dir, "last"), r); err != nil {
		t.Error(err)
	}
	r.Life += time.Second
	if _, err := a.Issue(filepath.Join(dir, "over"), r); err == nil {
		t.Error("a certificate outlives its authority")
	}
}

func TestRenewKeepsWhatTheCertificateSays(t *testing.T) {
	dir := t.TempDir()
	issued := time.Now().Add(-30 * 24 * time.Hour)
	if err := Create(dir, Options{Name: "spiffe://example.org/edge", Hosts: []string{"edge.example"}, Now: func() time.Time { return issued }}); err != nil {
		t.Fatal(err)
	}
	a, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, now := Server(dir), time.Now()
	old := leaf(t, f)
	if _, err := a.Renew(f, false, 0, now); err != nil {
		t.Fatal(err)
	}
	same := leaf(t, f)
	if !old.PublicKey.(*ecdsa.PublicKey).Equal(same.PublicKey) || same.SerialNumber.Cmp(old.SerialNumber) == 0 {
		t.Error("key or serial number are not what they should be")
	}
	if same.NotAfter.Sub(now).Round(time.Hour) != leafLife || same.URIs[0].String() != old.URIs[0].String() || len(same.DNSNames) != 2 || len(same.ExtKeyUsage) != 2 {
		t.Errorf("it says %v, %v, %v until %v", same.URIs, same.DNSNames, same.ExtKeyUsage, same.NotAfter)
	}
	if _, err := a.Renew(f, true, time.Hour, now); err != nil {
		t.Fatal(err)
	}
	if anew := leaf(t, f); old.PublicKey.(*ecdsa.PublicKey).Equal(anew.PublicKey) || anew.NotAfter.Sub(now).Round(time.Minute) != time.Hour {
		t.Errorf("no new key, or it ends at %v", anew.NotAfter)
	}
	other := t.TempDir()
	if err := Create(other, Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Renew(Server(other), false, 0, now); err == nil {
		t.Error("what another authority has issued was renewed")
	}
}
