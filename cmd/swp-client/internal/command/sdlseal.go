package command

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/client"
	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	"github.com/slimwire/swp/sdl/trust"
)

// sealing are the flags that say how an envelope is secured.
type sealing struct {
	sign, kid, form string
	to              []string
	nonce           string
	expires         time.Duration
	session         string
	cbor            bool
}

// What a signature covers.
const (
	formDefault = "cbor"
	formJSON    = "json"
)

func addSealing(cmd *cobra.Command) *sealing {
	s := new(sealing)
	p := cmd.Flags()
	p.StringVar(&s.sign, "sign", "", "`file` with the Ed25519 key that signs")
	p.StringVar(&s.kid, "kid", "", "`kid` of that key (default: as the .pub file beside it says)")
	cli.Choice(cmd, &s.form, "form", formDefault, "what the signature covers", formDefault, formJSON)
	p.StringArrayVar(&s.to, "encrypt", nil, "`KID=PUBLIC`, or @FILE, of a recipient (repeatable)")
	p.StringVar(&s.nonce, "nonce", "", "`text` that is used once (default: a random one, with --sign)")
	p.DurationVar(&s.expires, "expires", 5*time.Minute, "how long the envelope is good")
	p.StringVar(&s.session, "session", "", "`binding_id` of a session")
	p.BoolVar(&s.cbor, "cbor", false, "write CBOR, not JSON")
	return s
}

func (s *sealing) encoding() sdl.Form {
	if s.cbor {
		return sdl.CBOR
	}
	return sdl.JSON
}

// read returns what the flags mean.
func (s *sealing) read(f *flags) (out client.Sealing, err error) {
	out = client.Sealing{Nonce: s.nonce, Expires: time.Now().Add(s.expires), Session: s.session}
	if s.expires <= 0 {
		return out, &usageError{"--expires: want a duration above 0, such as 5m"}
	}
	if out.To, err = f.recipients("--encrypt", s.to); err != nil || s.sign == "" {
		switch {
		case err != nil:
		case s.kid != "":
			err = &usageError{"--kid names the key of --sign, which is missing"}
		case s.form != formDefault:
			err = &usageError{"--form needs --sign: it is the form that the signature covers"}
		}
		return out, err
	}
	text, err := cli.ReadFile(s.sign)
	if err != nil {
		return out, err
	}
	out.Signer.Kid = s.kid
	if out.Signer.Kid == "" {
		beside, err := os.ReadFile(strings.TrimSuffix(s.sign, filepath.Ext(s.sign)) + ".pub")
		if i := strings.LastIndexByte(string(beside), '='); err == nil && i > 0 {
			out.Signer.Kid = string(beside[:i])
		}
	}
	if out.Signer.Kid == "" {
		return out, &usageError{"--kid is missing, and there is no .pub file next to the key of --sign"}
	}
	if s.form == formJSON {
		out.Signer.Form = seal.JSON
	}
	out.Signer.Key, err = seal.ParseSigningKey(strings.TrimSpace(string(text)))
	return s.anew(out), err
}

// anew returns how for another envelope: with an unused nonce, if it signs.
func (s *sealing) anew(how client.Sealing) client.Sealing {
	if s.nonce == "" && s.sign != "" {
		how.Nonce = rand.Text()
	}
	how.Expires = time.Now().Add(s.expires)
	return how
}

// readEnvelope reads an envelope in either form.
func (f *flags) readEnvelope(arg string) (canonical.Value, error) {
	octets, err := f.readInput(arg)
	if err != nil {
		return canonical.Value{}, err
	}
	form, refused := sdl.FormOf(octets)
	if refused != nil {
		return canonical.Value{}, refused
	}
	v, refused := sdl.Decode(octets, form, sdl.Limits{})
	if refused != nil {
		return v, refused
	}
	return v, nil
}

func (f *flags) writeEnvelope(form sdl.Form, v canonical.Value) error {
	octets := form.Append(nil, v)
	if form == sdl.JSON {
		octets = append(octets, '\n')
	}
	_, err := f.out.Write(octets)
	return err
}

func newSDLSeal(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "seal ENVELOPE|@FILE|-",
		Short: "Sign and encrypt an envelope, offline",
		Long: `Encrypt an envelope for its recipients, add a nonce and an expiry, and sign it, as the
flags require. The result must be a valid envelope; it is not sent.`,
		Example: `  swp-client sdl seal --sign caller/sign.key --encrypt @server/box.pub @request.json >sealed.json
  swp-client sdl seal --sign caller/sign.key --cbor - <request.json | swp-client sdl open --keys server/keys.json -`,
	}
	s := addSealing(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		how, err := s.read(f)
		if err != nil {
			return err
		}
		v, err := f.readEnvelope(args[0])
		if err != nil {
			return err
		}
		if v, err = how.Seal(v); err != nil {
			return err
		}
		if _, refused := sdl.Validate(v, sdl.Options{}); refused != nil {
			return refused
		}
		return f.writeEnvelope(s.encoding(), v)
	}
	return cmd
}

func newSDLOpen(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "open --keys FILE ENVELOPE|@FILE|-",
		Short: "Verify and decrypt an envelope, offline",
		Long: `Check an envelope as a receiver with these keys would, and write it with its payload in
clear. The checks are its form, its signature by a key that is trusted and bound to its
sender, and its expiry; then it is decrypted, and the payload is validated against its
schemas. Replay cannot be checked offline.

Exit status: 1 if a check fails, or the payload cannot be decrypted.`,
		Example: `  swp-client sdl open --keys server/keys.json @sealed.json
  swp-client sdl open --keys server/keys.json - <sealed.cbor`,
	}
	keys := cmd.Flags().String("keys", "", "`file` with trusted_signing_keys and decrypt_private_keys (required)")
	local := cmd.Flags().String("agent", "", "required `agent_id` of the receiver")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *keys == "" {
			return &usageError{"--keys is missing; sdl keygen makes such a file"}
		}
		policy, err := readPolicy(*keys)
		if err != nil {
			return err
		}
		policy.Local = *local
		v, err := f.readEnvelope(args[0])
		if err != nil {
			return err
		}
		e, refused := sdl.Validate(v, sdl.Options{})
		if refused != nil {
			return refused
		}
		payload, refused := policy.Admit(cmd.Context(), e, time.Now())
		if refused != nil {
			return refused
		}
		return f.writeEnvelope(sdl.JSON, v.With("payload", payload))
	}
	return cmd
}

// readKeyFile reads a file of keys.
func readKeyFile(file string) (registry canonical.Value, decrypt map[string]*ecdh.PrivateKey, err error) {
	octets, err := cli.ReadFile(file)
	if err != nil {
		return registry, nil, err
	}
	v, err := canonical.ParseJSON(octets)
	if err != nil {
		return registry, nil, err
	}
	return trust.ReadKeyFile(v)
}

// readDecryptKeys reads the keys of a file that open envelopes.
func readDecryptKeys(file string) (map[string]*ecdh.PrivateKey, error) {
	_, decrypt, err := readKeyFile(file)
	if err == nil && len(decrypt) == 0 {
		err = &usageError{fmt.Sprintf("--keys %s: it has no decrypt_private_keys, so it opens nothing", file)}
	}
	return decrypt, err
}

// readPolicy reads a file of keys. Nonces are remembered for one envelope.
func readPolicy(file string) (*trust.Policy, error) {
	initial, decrypt, err := readKeyFile(file)
	if err != nil {
		return nil, err
	}
	registry, err := trust.NewRegistry(initial, time.Now(), trust.RegistryOptions{})
	if err != nil {
		return nil, err
	}
	return &trust.Policy{Registry: registry, DecryptKeys: decrypt, Replay: &trust.Replay{Nonces: once{}, Window: anyTime}}, nil
}

// anyTime is further ahead than an envelope expires that is looked at offline.
const anyTime = 100 * 365 * 24 * time.Hour

// once are the nonces of one envelope.
type once struct{}

// Remember says that nothing was seen before.
func (once) Remember(context.Context, string, string, time.Time) (bool, error) { return true, nil }
