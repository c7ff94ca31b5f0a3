package token_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/slimwire/swp/internal/access/token"
)

const issuer = "https://idp.test"

// keys are one of each sort that is taken or refused.
var (
	ed, _    = ed25519Key()
	p256, _  = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p384, _  = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	p521, _  = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	rsa2k, _ = rsa.GenerateKey(rand.Reader, 2048)
)

func ed25519Key() (ed25519.PrivateKey, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	return private, err
}

func pemOf(t testing.TB, public crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func jwkOf(t testing.TB, key any, id, alg string) string {
	t.Helper()
	b, err := (&jose.JSONWebKey{Key: key, KeyID: id, Algorithm: alg}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func verifier(t testing.TB, file []byte) *token.Verifier {
	t.Helper()
	keys, err := token.ParseKeys(file)
	if err != nil {
		t.Fatal(err)
	}
	return token.New(map[string]token.Issuer{issuer: {Keys: keys}})
}

func signWith(t testing.TB, alg jose.SignatureAlgorithm, key any, opts *jose.SignerOptions, payload string) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, opts)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var good = fmt.Sprintf(`{"iss":%q,"sub":"s","aud":["a","b"],"exp":2000000000.5,"nbf":5,"scope":"read  write"}`, issuer)

func TestEachAlgorithmThatIsTaken(t *testing.T) {
	for alg, key := range map[jose.SignatureAlgorithm]crypto.Signer{
		jose.EdDSA: ed, jose.ES256: p256, jose.ES384: p384, jose.RS256: rsa2k, jose.PS256: rsa2k,
	} {
		c, err := verifier(t, pemOf(t, key.Public())).Verify([]byte(signWith(t, alg, key, nil, good)), false)
		if err != nil {
			t.Errorf("%s: %v", alg, err)
			continue
		}
		if c.Issuer != issuer || c.Subject != "s" || strings.Join(c.Audience, ",") != "a,b" || strings.Join(c.Scopes, ",") != "read,write" ||
			c.Expires.UnixMilli() != 2000000000500 || c.NotBefore.Unix() != 5 || c.Bearer || c.Key == "" {
			t.Errorf("%s: claims %+v", alg, c)
		}
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	file := []byte(`{"keys":[` + jwkOf(t, ed.Public(), "one", "") + `,` + jwkOf(t, rsa2k.Public(), "two", "RS256") + `,` + jwkOf(t, p256.Public(), "", "") + `]}`)
	v := verifier(t, file)
	whole := signWith(t, jose.EdDSA, ed, nil, good)
	parts := strings.Split(whole, ".")
	enc := base64.RawURLEncoding.EncodeToString
	header := func(name jose.HeaderKey, value any) *jose.SignerOptions {
		return (&jose.SignerOptions{}).WithHeader(name, value)
	}
	public := pemOf(t, ed.Public())
	if _, err := v.Verify([]byte(whole), false); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"alg none":                         enc([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".",
		"alg none, signed":                 enc([]byte(`{"alg":"None"}`)) + "." + parts[1] + "." + parts[2],
		"hmac with the public key":         signWith(t, jose.HS256, public, nil, good),
		"an algorithm that is not taken":   signWith(t, jose.RS512, rsa2k, nil, good),
		"another algorithm than its key's": signWith(t, jose.PS256, rsa2k, nil, good),
		"another curve":                    signWith(t, jose.ES384, p384, nil, good),
		"the kid of another key":           signWith(t, jose.EdDSA, jose.JSONWebKey{Key: ed, KeyID: "two"}, nil, good),
		"a key that it carries":            signWith(t, jose.EdDSA, must(ed25519Key()), &jose.SignerOptions{EmbedJWK: true}, good),
		"critical headers":                 signWith(t, jose.EdDSA, ed, header("crit", []string{"exp"}), good),
		"a payload that is not encoded":    signWith(t, jose.EdDSA, ed, header("b64", true), good),
		"another type":                     signWith(t, jose.EdDSA, ed, header("typ", "secevent+jwt"), good),
		"a type that is no text":           signWith(t, jose.EdDSA, ed, header("typ", 5), good),
		"a token in a token":               signWith(t, jose.EdDSA, ed, header("cty", "JWT"), good),
		"another payload":                  parts[0] + "." + enc([]byte(strings.Replace(good, `"s"`, `"t"`, 1))) + "." + parts[2],
		"no signature":                     parts[0] + "." + parts[1] + ".",
		"a part too many":                  whole + ".x",
		"a part too few":                   parts[0] + "." + parts[1],
		"five parts":                       whole + ".x.y",
		"blanks":                           whole + "\n",
		"nothing":                          "",
		"a JSON serialization":             `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
		"claims that are no object":        signWith(t, jose.EdDSA, ed, nil, `[]`),
		"no issuer":                        signWith(t, jose.EdDSA, ed, nil, `{"sub":"s"}`),
		"a claim twice":                    signWith(t, jose.EdDSA, ed, nil, `{"iss":"`+issuer+`","sub":"s","sub":"t"}`),
		"an exp that is text":              signWith(t, jose.EdDSA, ed, nil, `{"iss":"`+issuer+`","exp":"5"}`),
		"an exp of zero":                   signWith(t, jose.EdDSA, ed, nil, `{"iss":"`+issuer+`","exp":0}`),
		"an exp after the year 9999":       signWith(t, jose.EdDSA, ed, nil, `{"iss":"`+issuer+`","exp":253402300800}`),
		"a thumbprint of 31 octets":        signWith(t, jose.EdDSA, ed, nil, `{"iss":"`+issuer+`","cnf":{"x5t#S256":"`+enc(make([]byte, 31))+`"}}`),
		"an empty binding":                 signWith(t, jose.EdDSA, ed, nil, `{"iss":"`+issuer+`","cnf":{}}`),
		"two bindings":                     signWith(t, jose.EdDSA, ed, nil, `{"iss":"`+issuer+`","cnf":{"x5t#S256":"`+enc(make([]byte, 32))+`","kid":"k"}}`),
		"too many octets":                  signWith(t, jose.EdDSA, ed, nil, `{"iss":"`+issuer+`","x":"`+strings.Repeat("x", 16<<10)+`"}`),
	} {
		c, err := v.Verify([]byte(text), false)
		if err == nil {
			t.Errorf("%s: accepted as %+v", name, c)
			continue
		}
		// Nothing of a token is in a text.
		if len(text) > 40 && strings.Contains(err.Error(), text[len(text)-20:]) {
			t.Errorf("%s: the error tells the token: %v", name, err)
		}
	}
	if _, err := v.Verify([]byte(whole), true); err == nil {
		t.Error("a first credential was taken as a delegation")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestKeyFiles(t *testing.T) {
	one := jwkOf(t, ed.Public(), "one", "")
	many := func(n int) []byte {
		return []byte(`{"keys":[` + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + `]}`)
	}
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Log("no RSA key of 1024 bits can be made:", err)
	}
	for name, test := range map[string]struct {
		file []byte
		keys int
	}{
		"one JWK":                {[]byte(one), 1},
		"a set":                  {many(16), 16},
		"one too many":           {many(17), 0},
		"an empty set":           {[]byte(`{"keys":[]}`), 0},
		"two in PEM":             {append(pemOf(t, ed.Public()), pemOf(t, rsa2k.Public())...), 2},
		"nothing":                {nil, 0},
		"text":                   {[]byte("ssh-ed25519 AAAA"), 0},
		"text after PEM":         {append(pemOf(t, ed.Public()), "x"...), 0},
		"a private JWK":          {[]byte(jwkOf(t, ed, "", "")), 0},
		"a symmetric JWK":        {[]byte(jwkOf(t, []byte("0123456789abcdef0123456789abcdef"), "", "")), 0},
		"a private key in PEM":   {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(ed))}), 0},
		"P-521":                  {pemOf(t, p521.Public()), 0},
		"an algorithm not taken": {[]byte(jwkOf(t, rsa2k.Public(), "", "RS512")), 0},
		"one of another key":     {[]byte(jwkOf(t, ed.Public(), "", "ES256")), 0},
		"for encryption":         {[]byte(strings.Replace(one, `{`, `{"use":"enc",`, 1)), 0},
		"no JSON":                {[]byte("{x"), 0},
	} {
		keys, err := token.ParseKeys(test.file)
		if len(keys) != test.keys || (err == nil) != (test.keys > 0) {
			if test.keys > 0 || err == nil {
				t.Errorf("%s: %d keys, %v, want %d", name, len(keys), err, test.keys)
			}
		}
	}
	if small != nil {
		if _, err := token.ParseKeys(pemOf(t, small.Public())); err == nil {
			t.Error("RSA of 1024 bits was taken")
		}
	}
}

func TestKeysCanBeReplaced(t *testing.T) {
	v := verifier(t, pemOf(t, ed.Public()))
	text := []byte(signWith(t, jose.EdDSA, ed, nil, good))
	c, err := v.Verify(text, false)
	if err != nil || !v.Trusts(issuer, c.Key, false) || v.Trusts(issuer, c.Key, true) || v.Trusts("x", c.Key, false) {
		t.Fatalf("claims %+v, error %v", c, err)
	}
	other, err := token.ParseKeys(pemOf(t, p256.Public()))
	if err != nil {
		t.Fatal(err)
	}
	v.Set(map[string]token.Issuer{issuer: {Keys: other}})
	if _, err := v.Verify(text, false); err == nil || v.Trusts(issuer, c.Key, false) {
		t.Error("a key that was removed is trusted")
	}
}

func FuzzVerify(f *testing.F) {
	v := verifier(f, pemOf(f, ed.Public()))
	f.Add([]byte(signWith(f, jose.EdDSA, ed, nil, good)))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := v.Verify(text, false); err == nil && (c.Issuer != issuer || !json.Valid([]byte(`"`+c.Key+`"`))) {
			t.Errorf("%q: %+v", text, c)
		}
	})
}
