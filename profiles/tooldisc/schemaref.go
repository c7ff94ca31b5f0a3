package tooldisc

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	"github.com/slimwire/swp/profiles"
)

// DetailSchemaRef is the detail of the error for a bad schema_ref.
const DetailSchemaRef = "schema_ref"

// hashes are the hash algorithms of a schema_ref with the length of their digests; 0 marks
// algorithms that are refused.
var hashes = map[string]int{"sha256": 32, "sha384": 48, "sha512": 64, "md5": 0, "sha1": 0, "sha224": 0}

// RefOf returns the schema_ref of a schema by its octets.
func RefOf(schema []byte) string {
	sum := sha256.Sum256(schema)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (m *Descriptor) checkRef() error { return CheckRef(string(m.SchemaRef)) }

// CheckRef returns an error for an invalid schema_ref. Valid are an absolute URI, and a
// hash such as sha256: and 64 hexadecimal digits. The error is an *profiles.Error of
// InvalidProfilePayload. It does not check whether the schema is available.
func CheckRef(ref string) error {
	scheme, rest, ok := strings.Cut(ref, ":")
	if !ok {
		return badRef("neither an absolute URI nor a hash")
	}
	if size, ok := hashes[strings.ToLower(scheme)]; ok {
		digest, err := hex.DecodeString(rest)
		if err != nil || size == 0 || len(digest) != size {
			return badRef("not a hash of sha256, sha384 or sha512 in hexadecimal digits")
		}
		return nil
	}
	u, err := url.Parse(ref)
	switch {
	case err != nil || !u.IsAbs() || strings.ContainsAny(ref, " \"<>\\^`{|}"):
		return badRef("not an absolute URI")
	case u.Opaque == "" && u.Host == "" && u.Path == "":
		return badRef("a scheme and nothing else")
	}
	return nil
}

func badRef(why string) error {
	return &profiles.Error{Code: profiles.InvalidProfilePayload, Detail: DetailSchemaRef, Text: "tooldisc: schema_ref: " + why}
}
