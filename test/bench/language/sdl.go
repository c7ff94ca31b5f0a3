package language

import (
	"context"
	"crypto/ecdh"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/serve"
	"github.com/slimwire/swp/sdl/trust"
)

// The names of the cases of A2A-SDL.
const (
	SDLPlain      = "SDL: decode, validate"
	SDLPlainJSON  = "encoding/json, into any"
	SDLSealed     = "SDL sealed: verify, decrypt too"
	SDLSealedCBOR = "the same, in CBOR"
	SDLCrypto     = "Ed25519 verify and X25519 alone"
)

const (
	caller = "did:key:caller"
	kid    = caller + "#1"
)

// sdlCases reads a task: plain, and signed and encrypted with a nonce. encoding/json does
// no validation.
func sdlCases() ([]Case, error) {
	payload, err := canonical.ParseJSON([]byte(
		`{"kind":"task.v1","goal":"review the change","inputs":{"change":4711},"constraints":{"time_budget_s":60,"compute_budget":"low","safety":{}},` +
			`"deliverables":[{"type":"text","description":"a review"}],"acceptance":["it names files"],"context":{}}`))
	if err != nil {
		return nil, err
	}
	who := func(agentID string) sdl.Identity {
		return sdl.Identity{AgentID: agentID, Name: "n", Instance: "i", Role: "r"}
	}
	task := sdl.New(sdl.TypeReq, sdl.CTTask, who(caller), who("did:web:server.example"), payload, sdl.Writing{})
	open, err := serve.New(serve.Options{})
	if err != nil {
		return nil, err
	}
	k, err := newKeys()
	if err != nil {
		return nil, err
	}
	guarded, err := k.server()
	if err != nil {
		return nil, err
	}
	sealed, err := k.seal(task)
	if err != nil {
		return nil, err
	}
	floor, err := k.floor(sealed)
	if err != nil {
		return nil, err
	}
	octets := task.AppendJSON(nil)
	return []Case{
		receive(SDLPlain, open, sdl.JSON, task),
		each(SDLPlainJSON, SDLPlain, slow, func() error {
			var v any
			return json.Unmarshal(octets, &v)
		}),
		receive(SDLSealed, guarded, sdl.JSON, sealed),
		receive(SDLSealedCBOR, guarded, sdl.CBOR, sealed),
		each(SDLCrypto, SDLSealed, slow, floor),
	}, nil
}

// receive reads an envelope as a server does before it is handled.
func receive(name string, s *serve.Server, form sdl.Form, envelope canonical.Value) Case {
	body := form.Append(nil, envelope)
	return each(name, "", slow, func() error {
		if _, refused := s.Receive(context.Background(), body, form, serve.Caller{Type: sdl.TypeReq}); refused != nil {
			return refused
		}
		return nil
	})
}

// keys are the signing key of a caller and the decryption key of the receiver.
type keys struct {
	sign ed25519.PrivateKey
	box  *ecdh.PrivateKey
}

func newKeys() (keys, error) {
	sign, err := seal.GenerateSigning(nil)
	if err != nil {
		return keys{}, err
	}
	box, err := seal.GenerateDecrypt(nil)
	return keys{sign, box}, err
}

func (k keys) public() ed25519.PublicKey { return ed25519.PublicKey(k.sign[ed25519.SeedSize:]) }

// seal returns the envelope encrypted and signed.
func (k keys) seal(v canonical.Value) (canonical.Value, error) {
	v, err := seal.Encrypt(v, nil, seal.Recipient{Kid: "box", Key: k.box.PublicKey()})
	if err != nil {
		return v, err
	}
	v = v.With("sec", v.Get("sec").With("replay", canonical.Object(
		member("nonce", canonical.String("n")),
		member("exp", canonical.String(sdl.FormatTime(time.Now().Add(time.Hour)))))))
	return seal.Signer{Kid: kid, Key: k.sign}.Sign(v)
}

// server returns one that takes what is sealed, and nothing else.
func (k keys) server() (*serve.Server, error) {
	registry, err := trust.NewRegistry(canonical.Object(member("trusted_signing_keys", canonical.Object(
		member(kid, canonical.String(seal.FormatB64(k.public())))))), time.Now(), trust.RegistryOptions{})
	if err != nil {
		return nil, err
	}
	return serve.New(serve.Options{Policy: &trust.Policy{
		Mode: sdl.ModeEncSig, Registry: registry, DecryptKeys: map[string]*ecdh.PrivateKey{"box": k.box},
		Replay: &trust.Replay{Nonces: new(again), Window: 2 * time.Hour}, RequireReplay: true,
	}, Recipients: func(string) []seal.Recipient { // answers are encrypted to the caller
		return []seal.Recipient{{Kid: "box", Key: k.box.PublicKey()}}
	}})
}

// floor returns the two operations that a sealed envelope cannot be read without.
func (k keys) floor(sealed canonical.Value) (func() error, error) {
	signed := seal.SigningInput(sealed, seal.CBOR)
	signature := ed25519.Sign(k.sign, signed)
	other, err := seal.GenerateDecrypt(nil)
	if err != nil {
		return nil, err
	}
	return func() error {
		if !ed25519.Verify(k.public(), signed, signature) {
			return errors.New("signature does not fit")
		}
		_, err := k.box.ECDH(other.PublicKey())
		return err
	}, nil
}

func member(name string, v canonical.Value) canonical.Member {
	return canonical.Member{Name: name, Value: v}
}

// again is the nonces of a process, where the same one can come again: each time it
// is kept under another name. It is not for use by several at once.
type again struct {
	nonces *trust.Memory
	n      int
}

func (a *again) Remember(ctx context.Context, agent, nonce string, exp time.Time) (bool, error) {
	const most = 10_000
	if a.n%most == 0 {
		a.nonces = trust.NewMemory(trust.MemoryOptions{Max: most, PerAgent: most})
	}
	a.n++
	return a.nonces.Remember(ctx, agent, nonce+strconv.Itoa(a.n), exp)
}
