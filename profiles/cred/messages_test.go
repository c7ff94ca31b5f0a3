package cred_test

import (
	"testing"

	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/proto/prototest"
)

func TestMessagesAreThoseOfTheSchema(t *testing.T) {
	prototest.Agree(t, "cred", map[string]prototest.Message{
		`present {cred_type: "jwt" credential: "\377\000" chain_id: "\376"}`:                     &cred.Present{Type: []byte("jwt"), Credential: []byte{0xff, 0}, ChainID: []byte{0xfe}},
		`present {cred_type: "opaque" credential: "c"}`:                                          &cred.Present{Type: []byte("opaque"), Credential: []byte("c")},
		`delegate {chain_id: "\376" delegation: "\377" expires_at_unix_ms: 9223372036854775808}`: &cred.Delegate{ChainID: []byte{0xfe}, Delegation: []byte{0xff}, Expires: 1 << 63},
		`revoke {chain_id: "\376" reason: "é"}`:                                                  &cred.Revoke{ChainID: []byte{0xfe}, Reason: []byte("é")},
		`err {code: "EXPIRED" message: "m"}`:                                                     &cred.Err{Code: []byte("EXPIRED"), Message: []byte("m")},
	})
}

func TestWhatIsRequiredIsMissed(t *testing.T) {
	for name, refused := range map[string]bool{
		"cred_type":          new(cred.Present).Decode((&cred.Present{Credential: []byte("c")}).Append(nil)) != nil,
		"credential":         new(cred.Present).Decode((&cred.Present{Type: []byte("jwt")}).Append(nil)) != nil,
		"chain_id":           new(cred.Delegate).Decode((&cred.Delegate{Delegation: []byte("d"), Expires: 1}).Append(nil)) != nil,
		"delegation":         new(cred.Delegate).Decode((&cred.Delegate{ChainID: []byte("i"), Expires: 1}).Append(nil)) != nil,
		"expires_at_unix_ms": new(cred.Delegate).Decode((&cred.Delegate{ChainID: []byte("i"), Delegation: []byte("d")}).Append(nil)) != nil,
		"chain_id to revoke": new(cred.Revoke).Decode((&cred.Revoke{Reason: []byte("r")}).Append(nil)) != nil,
		"code":               new(cred.Err).Decode((&cred.Err{Message: []byte("m")}).Append(nil)) != nil,
	} {
		if !refused {
			t.Errorf("a message without %s was accepted", name)
		}
	}
}
