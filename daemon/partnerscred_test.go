package daemon

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/a2a"
	"github.com/slimwire/swp/profiles/cred"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/rpc"
)

const (
	theIssuer = "https://idp.example"
	theCaller = "spiffe://a.example/swp-client"
	theEnd    = "spiffe://a.example/swpd"
)

// grant is a token of an issuer whose key is that of its name, see publicKey.
func grant(t *testing.T, issuer, subject, scope string, life time.Duration) []byte {
	t.Helper()
	seed := sha256.Sum256([]byte(issuer))
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: ed25519.NewKeyFromSeed(seed[:])}, nil)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := json.Marshal(map[string]any{"iss": issuer, "sub": subject, "aud": "both", "exp": time.Now().Add(life).Unix(), "scope": scope})
	if err != nil {
		t.Fatal(err)
	}
	object, err := signer.Sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	text, err := object.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return []byte(text)
}

// credYAML takes the tokens of the issuer, whose key lies in a file, and what the caller
// delegates.
func credYAML(t *testing.T, forward bool) (yaml, keys string) {
	t.Helper()
	dir := t.TempDir()
	keys, delegates := filepath.Join(dir, "keys"), filepath.Join(dir, "delegates")
	for file, issuer := range map[string]string{keys: theIssuer, delegates: theCaller} {
		if err := os.WriteFile(file, publicKey(t, issuer), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("cred: {forward: %v, audience: both, issuers: [{issuer: '%s', keys: '%s'}, {issuer: '%s', keys: '%s', delegates: true}]}\n",
		forward, theIssuer, keys, theCaller, delegates), keys
}

func confirmed(ctx context.Context, lane profiles.Lane) error {
	_, err := rpc.Call(ctx, lane, rpc.MethodSync, nil)
	return err
}

// present opens a chain at a daemon: what the issuer grants the caller, and the caller
// the endpoint. It returns a context in which exchanges are under it.
func (s *session) present(t *testing.T, chain string) context.Context {
	t.Helper()
	return s.show(t, chain, grant(t, theIssuer, theCaller, "read write", 2*time.Hour), grant(t, theCaller, theEnd, "read", time.Hour))
}

// show is present with these tokens.
func (s *session) show(t *testing.T, chain string, credential, delegation []byte) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	lane, err := s.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lane.Close() }()
	if err := cred.Show(ctx, lane, confirmed, cred.JWT, credential, []byte(chain)); err != nil {
		t.Fatal(err)
	}
	if err := cred.Extend(ctx, lane, confirmed, []byte(chain), delegation, time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return profiles.WithChain(ctx, []byte(chain))
}

// What is done under a chain here is done under it at the partner, or not at all.
func TestCredentialsGoToPartners(t *testing.T) {
	t.Parallel()
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		f, backend := newFar(t)
		near, _ := credYAML(t, true)
		there, keys := credYAML(t, false)
		a, b := pairOf(t, transport, near, there+backend+modernYAML(t))
		b.agent("far", func(context.Context, *a2a.Task, func(string, []byte) error) ([]byte, error) {
			return []byte("done"), nil
		})
		s := a.mustDial(a.addrs[transport])
		ctx := s.present(t, "one")
		call := func(ctx context.Context) error {
			_, err := rpc.Call(ctx, s.Session, "b/echo", []byte("{}"))
			return err
		}
		ask := func(ctx context.Context) string {
			result, err := s.mapping.Client(s.Session).Do(ctx, &mcpmap.Call{Target: "b/modern", Octets: []byte(modernCall)})
			if err != nil {
				t.Fatal(err)
			}
			return string(result.Octets)
		}
		task := func(ctx context.Context) *a2a.Result {
			d, err := s.tasks.Send(ctx, s.Session, &a2a.Task{Kind: "k"}, a2a.SendOptions{Agent: "b/far"})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			_, result := follow(t, d, "")
			return result
		}
		if err := call(t.Context()); err != nil || (<-f.asked).Header.Get("Swp-Delegation") != "" {
			t.Errorf("without credentials: %v", err)
		}
		for range 2 { // the chain is told again, and stays the same
			if err := call(ctx); err != nil {
				t.Fatal(err)
			}
			said := (<-f.asked).Header.Get("Swp-Delegation")
			for _, want := range []string{"issuer=" + url.QueryEscape(theIssuer), "subject=" + url.QueryEscape(theEnd), "owner=" + url.QueryEscape(theEnd), "scope=read,", "depth=2"} {
				if !strings.Contains(said, want) {
					t.Errorf("Swp-Delegation %q, want %q in it", said, want)
				}
			}
		}
		if got := ask(ctx); !strings.Contains(got, sayTool) {
			t.Errorf("MCP: %s", got)
		}
		if result := task(ctx); !result.OK || string(result.Output) != "done" {
			t.Errorf("A2A: %+v", result)
		}

		// The partner does not take the tokens of the issuer any more.
		if err := os.WriteFile(keys, publicKey(t, "another"), 0o600); err != nil {
			t.Fatal(err)
		}
		b.reloaded()
		var refused *rpc.Error
		if err := call(ctx); !errors.As(err, &refused) || refused.Code != rpc.CodeUnauthorized {
			t.Errorf("RPC: %v, want %s", err, rpc.CodeUnauthorized)
		}
		if got := ask(ctx); !strings.Contains(got, `"code":"ERR_SECURITY_POLICY"`) {
			t.Errorf("MCP: %s", got)
		}
		if result := task(ctx); result.OK {
			t.Errorf("A2A: %+v", result)
		}
		if len(f.asked) > 0 {
			t.Error("the call was made without its credentials")
		}
		if err := call(t.Context()); err != nil {
			t.Errorf("without credentials: %v", err)
		}
	})
}

// A legacy session carries requests under credentials and others.
func TestCredentialsGoWithRequestsOfLegacySessions(t *testing.T) {
	near, _ := credYAML(t, true)
	there, keys := credYAML(t, false)
	a, b := pairOf(t, 0, near, there+childYAML(t))
	s := a.mustDial(a.addrs[0])
	ctx := s.present(t, "one")
	name := s.begin(t, "b/child")
	ask := func(ctx context.Context) string {
		result, err := s.mapping.Client(s.Session).Do(ctx, &mcpmap.Call{
			Target: "b/child", Session: name, Octets: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pid"}}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(result.Octets)
	}
	pid := ask(t.Context())
	if got := ask(ctx); got != pid {
		t.Errorf("under credentials: %s, want %s", got, pid)
	}
	if err := os.WriteFile(keys, publicKey(t, "another"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.reloaded()
	if got := ask(ctx); !strings.Contains(got, `"code":"ERR_SECURITY_POLICY"`) {
		t.Errorf("under credentials that are not taken: %s", got)
	}
	if got := ask(t.Context()); got != pid {
		t.Errorf("without credentials: %s, want %s", got, pid)
	}
}

// Without cred.forward tokens are not kept, and go nowhere.
func TestCredentialsStayWhereTheyAreNotForwarded(t *testing.T) {
	f, backend := newFar(t)
	near, _ := credYAML(t, false)
	there, _ := credYAML(t, false)
	a, _ := pairOf(t, 0, near, there+backend)
	s := a.mustDial(a.addrs[0])
	if _, err := rpc.Call(s.present(t, "one"), s.Session, "b/echo", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if said := (<-f.asked).Header.Get("Swp-Delegation"); said != "" {
		t.Errorf("Swp-Delegation %q", said)
	}
}

func publicKey(t *testing.T, name string) []byte {
	t.Helper()
	seed := sha256.Sum256([]byte(name))
	der, err := x509.MarshalPKIXPublicKey(ed25519.NewKeyFromSeed(seed[:]).Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}
