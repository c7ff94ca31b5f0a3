package slip_test

import (
	"testing"

	"github.com/slimwire/swp/profiles/slip"
	"github.com/slimwire/swp/proto/prototest"
)

func TestErrIsThatOfTheSchema(t *testing.T) {
	prototest.Agree(t, "slip", map[string]prototest.Message{
		`err {code: "denied" message: "é"}`: &slip.Err{Code: []byte("denied"), Message: []byte("é")},
		`err {code: "c"}`:                   &slip.Err{Code: []byte("c")},
	})
}
