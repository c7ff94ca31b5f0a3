package certinfo_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/daemon/certinfo"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/transport"
)

func TestABundleSaysWhoAndWhere(t *testing.T) {
	dir := t.TempDir()
	if err := devpki.Create(dir, devpki.Options{}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(devpki.Server(dir).CA)
	if err != nil {
		t.Fatal(err)
	}
	authorities, err := transport.ParseAuthorities(text)
	if err != nil {
		t.Fatal(err)
	}
	b := &certinfo.Bundle{Identity: "spiffe://acme.example/swpd", Authorities: authorities}
	if err := b.SetAddresses([]string{"swp+quic://acme.example:7777", "swp+tls://acme.example"}); err != nil {
		t.Fatal(err)
	}
	again, err := certinfo.DecodeBundle(b.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.Encode(), again.Encode()); diff != "" {
		t.Error(diff)
	}
	for _, address := range []string{"swp+tcp://127.0.0.1:1", "swp+tls://acme.example:0", "acme.example"} {
		if err := b.SetAddresses([]string{address}); err == nil {
			t.Errorf("%q was accepted", address)
		}
	}
	for name, bad := range map[string]string{
		"empty":         "",
		"no authority":  "identity: spiffe://acme.example/swpd\n",
		"no identity":   string(text),
		"bad address":   "identity: spiffe://acme.example/swpd\naddress: nowhere\n" + string(text),
		"a private key": "identity: x\n-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n",
	} {
		if _, err := certinfo.DecodeBundle([]byte(bad)); err == nil {
			t.Errorf("%s: was accepted", name)
		}
	}
}
