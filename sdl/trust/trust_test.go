package trust

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The agents of the tests, and when they speak.
const (
	gardener = "urn:agent:gardener" // sends
	miller   = "urn:agent:miller"   // receives
	stranger = "urn:agent:stranger"
	kidA     = gardener + "#a"
	kidB     = gardener + "#b"
	kidMill  = miller + "#1"
)

var now = time.Date(2030, 5, 1, 8, 0, 0, 0, time.UTC)

// signingKey and decryptKey return the same key for the same name.
func signingKey(t testing.TB, name string) ed25519.PrivateKey {
	t.Helper()
	seed := sha256.Sum256([]byte(name))
	key, err := seal.GenerateSigning(strings.NewReader(string(seed[:])))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func verifyKey(t testing.TB, name string) ed25519.PublicKey {
	t.Helper()
	return ed25519.PublicKey(signingKey(t, name)[ed25519.SeedSize:])
}

func decryptKey(t testing.TB, name string) *ecdh.PrivateKey {
	t.Helper()
	seed := sha256.Sum256([]byte(name))
	key, err := seal.GenerateDecrypt(strings.NewReader(string(seed[:])))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func mustParse(t testing.TB, text string) canonical.Value {
	t.Helper()
	v, err := canonical.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// letter is a request of the gardener to the miller, without sec.
func letter(t testing.TB) canonical.Value {
	t.Helper()
	return mustParse(t, `{"v":1,"id":"m-1","ts":"2030-05-01T07:59:58Z","type":"req","ct":"task.v1",`+
		`"from":{"agent_id":"`+gardener+`","name":"g","instance":"i","role":"r"},`+
		`"to":{"agent_id":"`+miller+`","name":"m","instance":"i","role":"r"},"cap":{},`+
		`"payload":{"kind":"task.v1","goal":"grind the wheat","inputs":{},"deliverables":[],"acceptance":[],"context":{},`+
		`"constraints":{"time_budget_s":5,"compute_budget":"low","safety":{}}}}`).With("schema", sdl.Schema(sdl.CTTask))
}

// with returns an envelope with a member of sec.
func with(envelope canonical.Value, name string, v canonical.Value) canonical.Value {
	sec := envelope.Get("sec")
	if sec.IsNull() {
		sec = canonical.Object().With("mode", canonical.String(seal.None))
	}
	return envelope.With("sec", sec.With(name, v))
}

func once(envelope canonical.Value, nonce string, exp time.Time) canonical.Value {
	return with(envelope, "replay", canonical.Object().
		With("nonce", canonical.String(nonce)).With("exp", canonical.String(sdl.FormatTime(exp))))
}

func sign(t testing.TB, envelope canonical.Value, kid string) canonical.Value {
	t.Helper()
	signed, err := seal.Signer{Kid: kid, Key: signingKey(t, kid)}.Sign(envelope)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func encrypt(t testing.TB, envelope canonical.Value) canonical.Value {
	t.Helper()
	sealed, err := seal.Encrypt(envelope, nil, seal.Recipient{Kid: kidMill, Key: decryptKey(t, kidMill).PublicKey()})
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// secured is a letter that the policy of newPolicy admits, once for each nonce.
func secured(t testing.TB, nonce string) canonical.Value {
	t.Helper()
	return sign(t, once(encrypt(t, letter(t)), nonce, now.Add(5*time.Minute)), kidA)
}

// parse is what package sdl makes of an envelope.
func parse(t testing.TB, v canonical.Value) *sdl.Envelope {
	t.Helper()
	e, refused := sdl.Validate(v, sdl.Options{Now: func() time.Time { return now }})
	if refused != nil {
		t.Fatalf("not well formed: %v", refused)
	}
	return e
}

// newRegistry trusts the keys of kids.
func newRegistry(t testing.TB, more string, kids ...string) *Registry {
	t.Helper()
	keys := canonical.Object()
	for _, kid := range kids {
		keys = keys.With(kid, canonical.String(seal.FormatB64(verifyKey(t, kid))))
	}
	initial := mustParse(t, "{"+more+"}").With(memberKeys, keys)
	r, err := NewRegistry(initial, now, RegistryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newMemory(o MemoryOptions) *Memory {
	if o.Now == nil {
		o.Now = func() time.Time { return now }
	}
	return NewMemory(o)
}

// newPolicy demands all that there is.
func newPolicy(t testing.TB) *Policy {
	t.Helper()
	return &Policy{
		Mode:          sdl.ModeEncSig,
		Agents:        []string{gardener},
		Local:         miller,
		Registry:      newRegistry(t, "", kidA),
		DecryptKeys:   map[string]*ecdh.PrivateKey{kidMill: decryptKey(t, kidMill)},
		Replay:        &Replay{Nonces: newMemory(MemoryOptions{})},
		RequireReplay: true,
	}
}

// verdict is an error as the peer sees it; empty if there is none.
func verdict(refused *sdl.Error) string {
	if refused == nil {
		return ""
	}
	text := string(refused.Code)
	if refused.Retryable {
		text += " retryable"
	}
	if reason, ok := refused.Details.Get("reason").Text(); ok {
		text += " " + reason
	}
	if refused.Details.Has("supported") {
		text += " supported"
	}
	return text
}

const insecure = "SECURITY_UNSUPPORTED supported"

func admit(t testing.TB, p *Policy, envelope canonical.Value) (canonical.Value, string) {
	t.Helper()
	payload, refused := p.Admit(t.Context(), parse(t, envelope), now)
	return payload, verdict(refused)
}

func wantVerdict(t testing.TB, p *Policy, envelope canonical.Value, want string) {
	t.Helper()
	if _, got := admit(t, p, envelope); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
