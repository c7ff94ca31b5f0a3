package spiffe_test

import (
	"testing"

	"github.com/slimwire/swp/internal/spiffe"
)

func TestOnlyAURLOverTLSIsABundleEndpoint(t *testing.T) {
	for _, good := range []string{"https://acme.example/bundle.json", "https://acme.example:8443", "https://acme.example/b?x=1"} {
		if err := spiffe.CheckEndpoint(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "http://acme.example/", "https://", "https:acme", "https://user@acme.example/", "https://user:word@acme.example/", "https://acme.example/#a", "acme.example", ":"} {
		if spiffe.CheckEndpoint(bad) == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
