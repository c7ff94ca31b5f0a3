package transport_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/transporttest"
)

// written writes a certificate, its key and its authority as PEM files.
func written(t *testing.T) (cert, key, ca string) {
	t.Helper()
	authority := transporttest.NewCA(t)
	pair := authority.Issue(t, transporttest.Named("spiffe://example.org/a"))
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, octets []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: octets}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	return write("a.crt", "CERTIFICATE", pair.Certificate[0]), write("a.key", "PRIVATE KEY", der), write("ca.crt", "CERTIFICATE", authority.Cert.Raw)
}

func TestLoadCredentialsReadsPEMFiles(t *testing.T) {
	cert, key, ca := written(t)
	creds, err := transport.LoadCredentials(cert, key, ca)
	if err != nil {
		t.Fatal(err)
	}
	leaf := creds.Certificate.Leaf
	if id, err := transport.Identity(leaf); err != nil || id != "spiffe://example.org/a" {
		t.Errorf("identity %q, %v", id, err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: creds.Roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		t.Errorf("the authority does not vouch for the certificate: %v", err)
	}
}

func TestLoadCredentialsSaysWhatIsWrong(t *testing.T) {
	cert, key, ca := written(t)
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		cert, key string
		ca        []string
		want      string
	}{
		{cert + "x", key, []string{ca}, "no such file"},
		{cert, cert, []string{ca}, "transport: certificate " + cert + " and key " + cert},
		{cert, key, []string{ca, ca + "x"}, ca + "x: "},
		{cert, key, []string{empty}, empty + ": holds no certificate in PEM form"},
		{cert, key, []string{key}, `holds a "PRIVATE KEY", want certificates only`},
		{cert, key, nil, "none; nobody could be trusted"},
	} {
		if _, err := transport.LoadCredentials(tt.cert, tt.key, tt.ca...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want %s", err, tt.want)
		}
	}
}
