package serve_test

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/sha256"
	"testing"

	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/serve"
	"github.com/slimwire/swp/sdl/trust"
)

// signingKey returns the same key for the same name.
func signingKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func publicKey(name string) ed25519.PublicKey {
	key, _ := signingKey(name).Public().(ed25519.PublicKey)
	return key
}

func decryptKey(t testing.TB, name string) *ecdh.PrivateKey {
	t.Helper()
	seed := sha256.Sum256([]byte(name))
	key, err := ecdh.X25519().NewPrivateKey(seed[:])
	if err != nil {
		t.Fatal(err)
	}
	return key
}

const (
	plannerKid  = planner + "#s1"
	executorKid = executor + "#s1"
	executorEnc = executor + "#e1"
)

// registry returns a registry that trusts the planner.
func registry(t testing.TB) *trust.Registry {
	t.Helper()
	r, err := trust.NewRegistry(canonical.Object(canonical.Member{Name: "trusted_signing_keys", Value: canonical.Object(
		canonical.Member{Name: plannerKid, Value: canonical.String(seal.FormatB64(publicKey(plannerKid)))},
	)}), clock, trust.RegistryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// policy trusts the planner, looks at nonces and decrypts what is for the executor.
func policy(t testing.TB) *trust.Policy {
	t.Helper()
	return &trust.Policy{
		Registry:    registry(t),
		Local:       executor,
		DecryptKeys: map[string]*ecdh.PrivateKey{executorEnc: decryptKey(t, executorEnc)},
		Replay:      &trust.Replay{Nonces: trust.NewMemory(trust.MemoryOptions{Now: now})},
	}
}

// guarded returns the options of a server with a policy, whose answers are signed.
func guarded(t testing.TB) serve.Options {
	t.Helper()
	p := policy(t)
	return serve.Options{
		Policy:   p,
		Registry: p.Registry,
		Signer:   seal.Signer{Kid: executorKid, Key: signingKey(executorKid)},
	}
}

// sign signs a message of the planner, with a nonce unless that is empty.
func sign(t testing.TB, v canonical.Value, nonce string) canonical.Value {
	t.Helper()
	if nonce != "" {
		sec := v.Get("sec")
		if sec.IsNull() {
			sec = parse(t, `{"mode":"none"}`)
		}
		v = v.With("sec", sec.With("replay", parse(t, `{"nonce":"`+nonce+`","exp":"2026-05-04T03:05:00Z"}`)))
	}
	v, err := seal.Signer{Kid: plannerKid, Key: signingKey(plannerKid)}.Sign(v)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// encrypt encrypts a message to the executor.
func encrypt(t testing.TB, v canonical.Value) canonical.Value {
	t.Helper()
	v, err := seal.Encrypt(v, nil, seal.Recipient{Kid: executorEnc, Key: decryptKey(t, executorEnc).PublicKey()})
	if err != nil {
		t.Fatal(err)
	}
	return v
}
