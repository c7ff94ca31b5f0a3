package seal

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slimwire/swp/sdl/canonical"
)

var write = flag.Bool("write", false, "write testdata/vectors.jsonl anew")

const vectorFile = "testdata/vectors.jsonl"

// TestVectors holds what is signed and sealed against octets that stay: an
// implementation that reads the file can hold its own against them.
func TestVectors(t *testing.T) {
	var out bytes.Buffer
	for _, test := range []struct {
		name, payload string
		form          Form
		recipients    int
	}{
		{"sig over CBOR", `{"n":1,"x":1.0}`, CBOR, 0},
		{"sig over JSON", `{"n":1,"x":1.0}`, JSON, 0},
		{"enc+sig over CBOR, one recipient", `{"text":"Grüße, 🚜"}`, CBOR, 1},
		{"enc+sig over JSON, two recipients", `null`, JSON, 2},
	} {
		s := signer(t, 1, test.form)
		envelope := mustParse(t, letter).With("payload", mustParse(t, test.payload))
		row := canonical.Object().
			With("name", canonical.String(test.name)).
			With("envelope", envelope).
			With("signing_key", canonical.String(FormatB64(s.Key))).
			With("kid", canonical.String(s.Kid)).
			With("form", canonical.String(test.form.String()))
		if test.recipients > 0 {
			secrets := sequence(0x40, 44+44*test.recipients)
			var to []Recipient
			keys := canonical.Object()
			for i := range test.recipients {
				key := decryptKey(t, byte(10+i))
				kid := "urn:agent:miller#" + string(rune('a'+i))
				to = append(to, Recipient{kid, key.PublicKey()})
				keys = keys.With(kid, canonical.String(FormatB64(key)))
			}
			var err error
			if envelope, err = Encrypt(envelope, bytes.NewReader(secrets), to...); err != nil {
				t.Fatal(err)
			}
			row = row.With("decrypt_keys", keys).With("secrets", canonical.String(hex.EncodeToString(secrets)))
		}
		out.Write(row.With("sealed", sign(t, s, envelope)).AppendJSON(nil))
		out.WriteByte('\n')
	}
	if *write {
		if err := os.WriteFile(vectorFile, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", vectorFile, diff)
	}
}
