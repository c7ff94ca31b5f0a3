package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// signable is a card of A2A 1.0 as its author has laid it out: what a signature covers
// is its canonical form, and %s is where its signatures go.
const signable = "{\n  \"name\" : \"w\\u006frker\",\n\t\"version\":\"1.0.7\", \"description\":\"über\\/allem \\\"quoted\\\"\",\r\n" +
	`  "skills":[{"tags":["b","a"],"id":"work","name":"work","description":"<works & more>"}],%s` +
	`  "supportedInterfaces": [ {"url":"https://agent.example/rpc","protocolVersion":"1.0","protocolBinding":"JSONRPC"} ],` +
	`  "defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"], "capabilities":{"streaming":true}` + "\n}\n"

// canonical is the payload of the signatures of a card: JSON by RFC 8785 without them.
// Numbers and characters beyond the BMP are not in the cards here.
func canonical(t *testing.T, card string) []byte {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal([]byte(card), &members); err != nil {
		t.Fatalf("%q: %v", card, err)
	}
	delete(members, "signatures")
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(members); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// signed is a card with a detached signature of its author.
func signed(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithType("JOSE").WithHeader("kid", "author-1")
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	s, err := signer.Sign(canonical(t, fmt.Sprintf(signable, "")))
	if err != nil {
		t.Fatal(err)
	}
	compact, err := s.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(compact, ".")
	return fmt.Sprintf(signable, fmt.Sprintf(` "signatures" : [ {"signature":%q, "protected":%q} ],`, parts[2], parts[0]))
}

// verify checks a card as its reader does, who knows the key of the author.
func verify(t *testing.T, card string, key *ecdsa.PublicKey) error {
	t.Helper()
	var c struct {
		Signatures []struct{ Protected, Signature string }
	}
	if err := json.Unmarshal([]byte(card), &c); err != nil {
		return err
	}
	if len(c.Signatures) != 1 {
		return fmt.Errorf("%d signatures", len(c.Signatures))
	}
	payload := canonical(t, card)
	compact := c.Signatures[0].Protected + "." + base64.RawURLEncoding.EncodeToString(payload) + "." + c.Signatures[0].Signature
	s, err := jose.ParseSignedCompact(compact, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return err
	}
	_, err = s.Verify(key)
	return err
}

// What the author of a card has signed verifies at the far end; the card for clients of
// the front is another one, and does not say that its author has signed it.
func TestSignedCardsVerifyAtTheFarEnd(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	card := signed(t, key)
	if err := verify(t, card, &key.PublicKey); err != nil {
		t.Fatal(err)
	}
	if verify(t, strings.Replace(card, "1.0.7", "1.0.8", 1), &key.PublicKey) == nil {
		t.Fatal("a changed card verifies")
	}
	author := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, card) }))
	t.Cleanup(author.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	for _, transport := range []string{"tls", "quic"} {
		t.Run(transport, func(t *testing.T) {
			near := joined(t, transport, fmt.Sprintf("a2a: {agents: {worker: {url: %q, binding: jsonrpc}}}\n", author.URL))
			base := near.http + "/a2a/far/worker"
			original := fetch(t, base+"/agent-card.original.json")
			same(t, "original", original, card)
			if err := verify(t, original, &key.PublicKey); err != nil {
				t.Error(err)
			}
			for name, addr := range near.transports() {
				out, err := near.client("agents", "get", addr, "far/worker").Output()
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				same(t, "by AGDISC over "+name, string(out), card)
				if err := verify(t, string(out), &key.PublicKey); err != nil {
					t.Errorf("by AGDISC over %s: %v", name, err)
				}
			}
			var here struct {
				Name       string
				Signatures json.RawMessage
				Interfaces []struct{ URL string } `json:"supportedInterfaces"`
			}
			if err := json.Unmarshal([]byte(fetch(t, base+"/.well-known/agent-card.json")), &here); err != nil {
				t.Fatal(err)
			}
			if here.Name != "worker" || here.Signatures != nil || len(here.Interfaces) == 0 {
				t.Errorf("%+v", here)
			}
			for _, i := range here.Interfaces {
				same(t, "interface", i.URL, base)
			}
		})
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	if octets := all(t, r.Body); r.StatusCode == http.StatusOK {
		return octets
	}
	t.Fatalf("%s: %s", url, r.Status)
	return ""
}
