package config

import (
	"bytes"
	_ "embed"
)

//go:embed template.yaml
var template []byte

// Template returns the commented configuration that swpd init writes. The trust
// domain of identity, a URI such as spiffe://example.org/edge, is allowed
// everything in it.
func Template(identity string) []byte {
	return bytes.ReplaceAll(template, []byte("TRUST_DOMAIN"), []byte(trustDomain(identity)))
}
