package caller_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/caller"
	"github.com/slimwire/swp/transport/transporttest"
)

const (
	acme = "spiffe://acme.example/swpd"
	beta = "spiffe://beta.example/swpd"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func issue(t *testing.T, identity string) *tls.Certificate {
	t.Helper()
	return transporttest.NewCA(t).Issue(t, transporttest.Named(identity))
}

func sign(t *testing.T, c *caller.Claim, own *tls.Certificate) []byte {
	t.Helper()
	jwt, err := caller.Sign(c, own, beta, noon)
	if err != nil {
		t.Fatal(err)
	}
	return jwt
}

func verify(jwt []byte, peer *tls.Certificate, now time.Time) error {
	_, _, err := caller.Verify(jwt, peer.Leaf, acme, beta, now)
	return err
}

func claim(endpoints int) *caller.Claim {
	c := &caller.Claim{Caller: "http:alice", Chain: []string{acme}}
	for i := range endpoints - 1 {
		c.Chain = append(c.Chain, fmt.Sprintf("spiffe://e%d/s", i))
	}
	return c
}

func TestEachKindOfKeySignsAndVerifies(t *testing.T) {
	for name, key := range map[string]func() (crypto.Signer, error){
		"P-256":   func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
		"P-384":   func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P384(), rand.Reader) },
		"P-521":   func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P521(), rand.Reader) },
		"Ed25519": func() (crypto.Signer, error) { _, key, err := ed25519.GenerateKey(rand.Reader); return key, err },
		"RSA":     func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) },
	} {
		t.Run(name, func(t *testing.T) {
			own, err := key()
			if err != nil {
				t.Fatal(err)
			}
			cert := &tls.Certificate{Certificate: [][]byte{[]byte(name)}, PrivateKey: own}
			peer := &x509.Certificate{Raw: []byte(name), PublicKey: own.Public()}
			want := claim(2)
			jwt, err := caller.Sign(want, cert, beta, noon)
			if err != nil {
				t.Fatal(err)
			}
			got, until, err := caller.Verify(jwt, peer, acme, beta, noon)
			if err != nil || !reflect.DeepEqual(got, want) || !until.Equal(noon.Add(caller.Valid+caller.Skew)) {
				t.Errorf("%+v until %v, %v", got, until, err)
			}
		})
	}
}

func TestAnAssertionIsAcceptedForItsMinuteAndTheSkew(t *testing.T) {
	cert := issue(t, acme)
	jwt := sign(t, claim(1), cert)
	for _, row := range []struct {
		after time.Duration
		good  bool
	}{
		{-caller.Skew - time.Nanosecond, false},
		{-caller.Skew, true},
		{0, true},
		{caller.Valid + caller.Skew, true},
		{caller.Valid + caller.Skew + time.Nanosecond, false},
	} {
		if err := verify(jwt, cert, noon.Add(row.after)); (err == nil) != row.good || !row.good && !errors.Is(err, caller.ErrTime) {
			t.Errorf("%v after it was issued: %v", row.after, err)
		}
	}
}

func TestTheChainHasAtMostEightEndpoints(t *testing.T) {
	cert := issue(t, acme)
	if err := verify(sign(t, claim(caller.MaxChain), cert), cert, noon); err != nil {
		t.Error(err)
	}
	if _, err := caller.Sign(claim(caller.MaxChain+1), cert, beta, noon); !errors.Is(err, caller.ErrChain) {
		t.Errorf("signed: %v", err)
	}
	act := `{"sub":"x"}`
	for range caller.MaxChain - 1 {
		act = `{"sub":"x","act":` + act + `}`
	}
	long := `{"sub":"` + acme + `","act":` + act + `}`
	jwt := forge(t, cert, func(body string) string { return strings.Replace(body, `{"sub":"`+acme+`"}`, long, 1) })
	if err := verify(jwt, cert, noon); !errors.Is(err, caller.ErrChain) {
		t.Errorf("verified: %v", err)
	}
}

func TestAnAssertionHasAtMost1024Octets(t *testing.T) {
	cert := issue(t, acme)
	size := func(n int) int {
		c := claim(1)
		c.Caller = strings.Repeat("x", n)
		jwt, err := caller.Sign(c, cert, beta, noon)
		if err != nil && !errors.Is(err, caller.ErrSize) {
			t.Fatal(err)
		}
		return len(jwt)
	}
	longest := 0
	for n := 400; n < 700; n++ {
		if size(n) > 0 {
			longest = n
		}
	}
	if at, above := size(longest), size(longest+1); at < caller.MaxOctets-1 || at > caller.MaxOctets || above != 0 {
		t.Errorf("%d octets signed, and %d for one more", at, above)
	}
	jwt := sign(t, claim(1), cert)
	if err := verify(append(jwt, bytes.Repeat([]byte("A"), caller.MaxOctets+1-len(jwt))...), cert, noon); !errors.Is(err, caller.ErrSize) {
		t.Errorf("verified: %v", err)
	}
}

// forge changes the payload of an assertion and signs it again.
func forge(t *testing.T, cert *tls.Certificate, change func(body string) string) []byte {
	t.Helper()
	parts := strings.Split(string(sign(t, claim(1), cert)), ".")
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	changed := change(string(body))
	if changed == string(body) {
		t.Fatal("nothing changed")
	}
	return caller.SignPayload(t, cert, changed)
}

func TestAssertionsThatAreRefused(t *testing.T) {
	cert, other := issue(t, acme), issue(t, acme)
	jwt := sign(t, claim(1), cert)
	renewed := *cert
	renewed.Certificate = [][]byte{append([]byte{0}, cert.Certificate[0]...)}
	member := func(from, to string) func(string) string {
		return func(body string) string { return strings.Replace(body, from, to, 1) }
	}
	elsewhere, err := caller.Sign(claim(1), cert, "spiffe://gamma.example/swpd", noon)
	if err != nil {
		t.Fatal(err)
	}
	for name, forged := range map[string][]byte{
		"another key":                 sign(t, claim(1), other),
		"another certificate, by cnf": sign(t, claim(1), &renewed),
		"another partner, by aud":     elsewhere,
		"no signature":                jwt[:bytes.LastIndexByte(jwt, '.')+1],
		"two parts":                   jwt[:bytes.LastIndexByte(jwt, '.')],
		"a line end":                  append(bytes.Clone(jwt), '\n'),
		"empty":                       {},
		"alg none":                    append([]byte(base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))), jwt[bytes.IndexByte(jwt, '.'):]...),
		"a critical header":           append([]byte(base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","crit":["b64"],"b64":false}`))), jwt[bytes.IndexByte(jwt, '.'):]...),
		"valid for 61 s":              forge(t, cert, member(fmt.Sprint(noon.Unix()+60), fmt.Sprint(noon.Unix()+61))),
		"never valid":                 forge(t, cert, member(fmt.Sprint(noon.Unix()+60), fmt.Sprint(noon.Unix()))),
		"no caller":                   forge(t, cert, member(`"sub":"http:alice"`, `"sub":""`)),
		"a space in the caller":       forge(t, cert, member("http:alice", "http:alice for bob")),
		"a control character":         forge(t, cert, member("http:alice", `http:\u0007`)),
		"no act":                      forge(t, cert, member(`,"act":{"sub":"`+acme+`"}`, "")),
		"act of another":              forge(t, cert, member(`"act":{"sub":"`+acme, `"act":{"sub":"x`)),
		"a number as the caller":      forge(t, cert, member(`"http:alice"`, "7")),
		"sub twice":                   forge(t, cert, member(`"sub":"http:alice"`, `"sub":"http:bob","sub":"http:alice"`)),
		"sub twice, once escaped":     forge(t, cert, member(`"sub":"http:alice"`, `"s\u0075b":"http:bob","sub":"http:alice"`)),
		"sub in another case":         forge(t, cert, member(`"sub":"http:alice"`, `"sub":"http:bob","SUB":"http:alice"`)),
		"sub only in another case":    forge(t, cert, member(`"sub":"http:alice"`, `"Sub":"http:alice"`)),
		"another member twice":        forge(t, cert, member(`"sub":"http:alice"`, `"sub":"http:alice","x":1,"x":1`)),
		"act twice":                   forge(t, cert, member(`"act":`, `"act":{"sub":"`+acme+`","act":{"sub":"x"}},"act":`)),
		"sub of act twice":            forge(t, cert, member(`"act":{`, `"act":{"sub":"`+acme+`",`)),
		"x5t#S256 of cnf twice":       forge(t, cert, member(`"cnf":{`, `"cnf":{"x5t#S256":"x",`)),
		"a member deep down twice":    forge(t, cert, member(`"sub":"http:alice"`, `"sub":"http:alice","x":[{"y":{"z":1,"z":1}}]`)),
		"alg twice":                   caller.SignHeader(t, cert, `{"alg":"ES256","alg":"ES256"}`, jwt),
		"kid twice":                   caller.SignHeader(t, cert, `{"alg":"ES256","kid":"a","kid":"b"}`, jwt),
		"a second value":              forge(t, cert, func(body string) string { return body + "{}" }),
	} {
		if err := verify(forged, cert, noon); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for i := range jwt {
		changed := bytes.Clone(jwt)
		changed[i] ^= 1
		if err := verify(changed, cert, noon); err == nil {
			t.Fatalf("octet %d changed: accepted", i)
		}
	}
}

func FuzzVerify(f *testing.F) {
	cert := transporttest.NewCA(f).Issue(f, transporttest.Named(acme))
	jwt, err := caller.Sign(claim(2), cert, beta, noon)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(jwt)
	f.Fuzz(func(t *testing.T, data []byte) {
		signed := func(jwt []byte) []byte { return jwt[:bytes.LastIndexByte(jwt, '.')] }
		if err := verify(data, cert, noon); err == nil && !bytes.Equal(signed(data), signed(jwt)) {
			t.Fatalf("accepted %q", data)
		}
	})
}
