package check

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
)

func value(t *testing.T, text string) canonical.Value {
	t.Helper()
	v, err := canonical.ParseJSON([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// playRow plays a row as if it was in testdata.
func playRow(t *testing.T, row canonical.Value, keys *Keys) Report {
	t.Helper()
	c, err := load(row.AppendJSON(nil), "testdata", keys)
	if err != nil {
		t.Fatal(err)
	}
	return c.Play(t.Context())
}

func TestLengthOfABodyIsLookedAtBeforeItsMediaType(t *testing.T) {
	row := value(t, `{"id":"long","now":"2026-01-01T00:00:00Z","content_type":"text/plain","server":{"limits":{"max_bytes":20}},"bodies":["twenty-one characters","twenty of characters"],
		"recommended":[{"outcome":"error","code":"BAD_REQUEST","retryable":false,"details":{"max_bytes":20}},{"outcome":"error","code":"UNSUPPORTED_ENCODING","retryable":false}]}`)
	for _, only := range []bool{false, true} {
		row := row.With("server", row.Get("server").With("validate_only", canonical.Bool(only)))
		if r := playRow(t, row, nil); !r.Pass {
			t.Errorf("validate_only %v: %v", only, r.Diff)
		}
	}
}

func TestDivergencesMayEndWithValidation(t *testing.T) {
	body, err := os.ReadFile("testdata/08-enc.json")
	if err != nil {
		t.Fatal(err)
	}
	row := value(t, `{"id":"enc","now":"2026-07-08T09:10:11Z","server":{"validate_only":true},"recommended":[{"outcome":"accept"}]}`)
	row = row.With("bodies", canonical.Array(canonical.String(string(body))))
	if r := playRow(t, row, nil); !r.Pass {
		t.Error(r.Diff)
	}
	if r := playRow(t, row.With("server", canonical.Object()), nil); r.Pass {
		t.Error("a server without a policy takes what is encrypted")
	}
}

// signedTwice returns a case with a signature that a policy verifies.
func signedTwice(t *testing.T) canonical.Value {
	t.Helper()
	return rowsOf(t, "testdata/05-signed-twice.expect.json")[0]
}

func TestSignatureThatNoPolicyVerifiesIsVerifiedWithTheFileOfKeys(t *testing.T) {
	row := signedTwice(t)
	kid, _ := row.Get("signature").Get("kid").Text()
	trusted := row.Get("server").Get("policy").Get("trusted_signing_keys").Get(kid)
	row = row.With("server", value(t, `{"validate_only":true}`)).With("expected", value(t, `[{"outcome":"accept"}]`))
	keys := func(public canonical.Value) *Keys {
		pair := canonical.Object(canonical.Member{Name: "public_key_b64", Value: public})
		return &Keys{canonical.Object(canonical.Member{Name: kid, Value: pair})}
	}
	if r := playRow(t, row, keys(trusted)); !r.Pass {
		t.Error(r.Diff)
	}
	other, err := LoadKeys("testdata/keys.json")
	if err != nil {
		t.Fatal(err)
	}
	for what, k := range map[string]*Keys{
		"no file": nil, "another key": keys(canonical.String(other.text("approver-1", "public_key_b64"))), "no key": keys(canonical.String("x")),
	} {
		if r := playRow(t, row, k); r.Pass || !strings.Contains(r.Diff[0], "signature.") {
			t.Errorf("%s: %v", what, r.Diff)
		}
	}
}

func TestATextThatIsNoKeyIsTrustedByNobody(t *testing.T) {
	row := signedTwice(t)
	kid, _ := row.Get("signature").Get("kid").Text()
	server := row.Get("server").Without("deliver")
	server = server.With("policy", server.Get("policy").With("trusted_signing_keys", canonical.Object(canonical.Member{Name: kid, Value: canonical.String("none")})))
	row = row.Without("signature").With("server", server).With("expected", value(t, `[{"outcome":"error","code":"SECURITY_UNSUPPORTED","retryable":false}]`))
	if r := playRow(t, row, nil); !r.Pass {
		t.Error(r.Diff)
	}
}

func TestAnEmptyListExemptsNothing(t *testing.T) {
	var c setup
	s := newShape(value(t, `{"session_binding_exempt_ct":[]}`))
	if c.readPolicy(s); c.policy.SessionExempt == nil || len(c.policy.SessionExempt) != 0 {
		t.Errorf("%#v is the default list", c.policy.SessionExempt)
	}
	if c.readPolicy(newShape(canonical.Object())); c.policy.SessionExempt != nil {
		t.Errorf("%v without a list", c.policy.SessionExempt)
	}
}

func TestWrappedKeysOfOtherRecipients(t *testing.T) {
	row := rowsOf(t, "testdata/keywrap.jsonl")[0]
	w := newShape(row)
	key, err := seal.ParseDecryptKey(w.text("recipient_private_b64"))
	if err != nil {
		t.Fatal(err)
	}
	private := seal.EncodeB64(bytes.Repeat([]byte{7}, 32))
	other, err := seal.ParseDecryptKey(private)
	if err != nil {
		t.Fatal(err)
	}
	envelope := canonical.Object(canonical.Member{Name: "payload", Value: value(t, w.text("plaintext_json"))})
	secrets := bytes.Join([][]byte{
		w.octets("content_key_hex"), w.octets("content_nonce_hex"), w.octets("ephemeral_private_hex"), w.octets("wrap_nonce_hex"), bytes.Repeat([]byte{9}, 44),
	}, nil)
	sealed, err := seal.Encrypt(envelope, bytes.NewReader(secrets),
		seal.Recipient{Kid: w.text("recipient_kid"), Key: key.PublicKey()}, seal.Recipient{Kid: "other", Key: other.PublicKey()})
	if err != nil {
		t.Fatal(err)
	}
	enc := sealed.Get("sec").Get("enc")
	keys := &Keys{canonical.Object(canonical.Member{Name: "other", Value: canonical.Object(canonical.Member{Name: "private_key_b64", Value: canonical.String(private)})})}
	for _, k := range []*Keys{nil, keys} {
		if r := playRow(t, row.With("sec_enc", enc), k); !r.Pass {
			t.Error(r.Diff)
		}
	}
	mine, theirs := enc.Get("recipients").At(0), enc.Get("recipients").At(1)
	wrong := theirs.With("ek", mine.Get("ek"))
	if r := playRow(t, row.With("sec_enc", enc.With("recipients", canonical.Array(mine, wrong))), keys); r.Pass {
		t.Error("the key of another recipient does not open the payload, and nobody says so")
	}
	if r := playRow(t, row.With("sec_enc", enc.With("recipients", canonical.Array(theirs))), keys); r.Pass {
		t.Error("the recipient of the row is missing, and nobody says so")
	}
}

func TestAFaultyRowDoesNotTakeTheOthersAway(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows.jsonl")
	const good = `{"id":"a","input":"x","error":"not JSON"}` + "\n"
	for _, test := range []struct {
		content string
		cases   int
		faults  []string
	}{
		{good + `{"id":"b"}` + "\n" + good + "[]\n" + good, 3, []string{"case 2: not recognised", "case 4: not recognised"}},
		{good + `{"id":"a","id":"b"}` + good, 2, []string{"case 2: "}},
		{good + good + `{"id":`, 2, []string{"case 3: not JSON"}},
		{good + `{]}` + "\n" + good, 1, []string{"case 2: not JSON"}}, // where the next one begins is not known
	} {
		if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		cases, err := Load(file, nil)
		if len(cases) != test.cases || err == nil {
			t.Errorf("%q: %d cases, %v, want %d and an error", test.content, len(cases), err, test.cases)
			continue
		}
		for _, fault := range append(test.faults, file) {
			if !strings.Contains(err.Error(), fault) {
				t.Errorf("%q: %v, want %q", test.content, err, fault)
			}
		}
	}
}
