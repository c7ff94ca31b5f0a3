package config

import _ "embed"

// Template is the commented configuration that swpd init writes.
//
//go:embed template.yaml
var Template []byte
