package cred_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/proto/credpb"
)

func TestMessagesAreThoseOfTheSchema(t *testing.T) {
	for _, test := range []struct {
		name string
		ours interface {
			Decode([]byte) error
			Append([]byte) []byte
			Size() int
		}
		schema *credpb.Payload
	}{
		{"present", &cred.Present{Type: []byte("jwt"), Credential: []byte{0xff, 0}, ChainID: []byte{0xfe}},
			&credpb.Payload{Body: &credpb.Payload_Present{Present: &credpb.CredPresent{CredType: "jwt", Credential: []byte{0xff, 0}, ChainId: []byte{0xfe}}}}},
		{"present without a chain", &cred.Present{Type: []byte("opaque"), Credential: []byte("c")},
			&credpb.Payload{Body: &credpb.Payload_Present{Present: &credpb.CredPresent{CredType: "opaque", Credential: []byte("c")}}}},
		{"delegate", &cred.Delegate{ChainID: []byte{0xfe}, Delegation: []byte{0xff}, Expires: 1 << 63},
			&credpb.Payload{Body: &credpb.Payload_Delegate{Delegate: &credpb.CredDelegate{ChainId: []byte{0xfe}, Delegation: []byte{0xff}, ExpiresAtUnixMs: 1 << 63}}}},
		{"revoke", &cred.Revoke{ChainID: []byte{0xfe}, Reason: []byte("é")},
			&credpb.Payload{Body: &credpb.Payload_Revoke{Revoke: &credpb.CredRevoke{ChainId: []byte{0xfe}, Reason: "é"}}}},
		{"err", &cred.Err{Code: []byte("EXPIRED"), Message: []byte("m")},
			&credpb.Payload{Body: &credpb.Payload_Err{Err: &credpb.CredErr{Code: "EXPIRED", Message: "m"}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want, err := proto.MarshalOptions{Deterministic: true}.Marshal(test.schema)
			if err != nil {
				t.Fatal(err)
			}
			if got := test.ours.Append(nil); !bytes.Equal(got, want) || test.ours.Size() != len(want) {
				t.Errorf("%x of size %d, want %x", got, test.ours.Size(), want)
			}
			if err := test.ours.Decode(want); err != nil {
				t.Fatal(err)
			}
			if again := test.ours.Append(nil); !bytes.Equal(again, want) {
				t.Errorf("decoded and appended: %x, want %x", again, want)
			}
			for n := range want {
				if test.ours.Decode(want[:n]) == nil {
					t.Errorf("prefix of %d octets accepted", n)
				}
			}
		})
	}
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
