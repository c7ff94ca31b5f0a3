package config

import (
	_ "embed"
	"slices"
)

//go:generate go test . -run ^TestTheSchemasAreThoseOfTheKeys$ -update

//go:embed swpd.schema.json
var schema []byte

//go:embed partner.schema.json
var partnerSchema []byte

// Schema returns the JSON Schema (draft 7) of a configuration, for editors. It accepts every
// file whose keys and values Load can read, but does not know what several keys mean together,
// the ranges of numbers, or whether files exist.
func Schema() []byte { return slices.Clone(schema) }

// PartnerSchema returns the same for a file in PartnersDir.
func PartnerSchema() []byte { return slices.Clone(partnerSchema) }
