package command

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
	trustfile "github.com/slimwire/swp/sdl/trust"
)

// Files that keygen makes.
const (
	signKeyFile = "sign.key"
	signPubFile = "sign.pub"
	boxKeyFile  = "box.key"
	boxPubFile  = "box.pub"
	keysFile    = "keys.json"
)

func newSDLKeygen(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keygen --agent ID DIR",
		Short: "Make the keys of an agent, for signatures and encryption",
		Long: `Make the keys of an agent in a directory, and print the public ones as KID=PUBLIC.
Existing files are not overwritten:

  sign.key, sign.pub  Ed25519, for signing
  box.key, box.pub    X25519, for messages encrypted to the agent
  keys.json           trusted signers (--trust), decryption keys and keys for answers
                      (--recipient), for sdl.keys of swpd, sdl open and sdl send --keys

Files with a private key are readable by their owner only (mode 0600).`,
		Example: `  swp-client sdl keygen --agent did:key:caller caller
  swp-client sdl keygen --agent did:web:example.org --trust @caller/sign.pub --recipient @caller/box.pub server`,
	}
	agent := cmd.Flags().String("agent", "", "`agent_id` of the keys' owner (required)")
	label := cmd.Flags().String("label", "1", "label: the part of a kid after the agent_id and #")
	trusted := cmd.Flags().StringArray("trust", nil, "`KID=PUBLIC`, or @FILE, of a trusted signer (repeatable)")
	recipients := cmd.Flags().StringArray("recipient", nil, "`KID=PUBLIC`, or @FILE, of an agent to which answers are encrypted (repeatable)")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if *agent == "" || *label == "" || strings.ContainsAny(*agent+*label, "=\n") || strings.Contains(*label, "#") {
			return &usageError{"--agent is missing, or it or --label has = or a line break, or the label #"}
		}
		trust, err := f.verifyKeys("--trust", *trusted)
		if err != nil {
			return err
		}
		to, err := f.recipients("--recipient", *recipients)
		if err != nil {
			return err
		}
		return f.keygen(args[0], *agent+"#"+*label, trust, to)
	}
	return cmd
}

func (f *flags) keygen(dir, kid string, trust map[string]ed25519.PublicKey, to []seal.Recipient) error {
	sign, err := seal.GenerateSigning(nil)
	if err != nil {
		return err
	}
	box, err := seal.GenerateDecrypt(nil)
	if err != nil {
		return err
	}
	signPEM, err := seal.FormatPEM(sign)
	if err != nil {
		return err
	}
	boxPEM, err := seal.FormatPEM(box)
	if err != nil {
		return err
	}
	public, ok := sign.Public().(ed25519.PublicKey)
	if !ok {
		return errors.New("sdl: an Ed25519 key without its public half")
	}
	boxKid := kid + "-box"
	var keys []canonical.Member
	for kid, key := range trust {
		keys = append(keys, canonical.Member{Name: kid, Value: canonical.String(seal.FormatB64(key))})
	}
	registry := canonical.Object(
		canonical.Member{Name: "trusted_signing_keys", Value: canonical.Object(keys...)},
		canonical.Member{Name: "decrypt_private_keys", Value: canonical.Object(canonical.Member{Name: boxKid, Value: canonical.String(seal.FormatB64(box))})},
	)
	if len(to) > 0 {
		var readers []canonical.Member
		for _, r := range to {
			readers = append(readers, canonical.Member{Name: r.Kid, Value: canonical.String(seal.FormatB64(r.Key))})
		}
		registry = registry.With("encrypt_public_keys", canonical.Object(readers...))
		if _, err := trustfile.ReadRecipients(registry); err != nil {
			return &usageError{"--recipient: " + err.Error()}
		}
	}
	signPub, boxPub := kid+"="+seal.FormatB64(public), boxKid+"="+seal.FormatB64(box.PublicKey())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, file := range []struct {
		name, text string
		mode       os.FileMode
	}{
		{signKeyFile, signPEM, 0o600}, {boxKeyFile, boxPEM, 0o600}, {keysFile, string(registry.AppendJSON(nil)) + "\n", 0o600},
		{signPubFile, signPub + "\n", 0o644}, {boxPubFile, boxPub + "\n", 0o644},
	} {
		if err := writeNew(filepath.Join(dir, file.name), file.text, file.mode); err != nil {
			return err
		}
	}
	if f.asJSON {
		type key struct {
			Kid    string `json:"kid"`
			Public string `json:"public"`
			File   string `json:"file"`
		}
		return f.printJSON(map[string]key{
			"sign": {kid, seal.FormatB64(public), filepath.Join(dir, signKeyFile)},
			"box":  {boxKid, seal.FormatB64(box.PublicKey()), filepath.Join(dir, boxKeyFile)},
		})
	}
	f.printf("sign  %s\nbox   %s\n", signPub, boxPub)
	return nil
}

// writeNew writes a file that is not there yet.
func writeNew(name, text string, mode os.FileMode) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// pairs reads KID=PUBLIC from texts, or from the lines of files.
func (f *flags) pairs(what string, texts []string, each func(kid, public string) error) error {
	for _, text := range texts {
		lines := []string{text}
		if strings.HasPrefix(text, "@") {
			octets, err := f.readInput(text)
			if err != nil {
				return err
			}
			lines = strings.Split(strings.TrimSpace(string(octets)), "\n")
		}
		for _, line := range lines {
			// A kid may contain =, base64url without padding does not.
			i := strings.LastIndexByte(line, '=')
			if i < 1 {
				return &usageError{fmt.Sprintf("%s %.80q: want KID=PUBLIC, or @FILE with such lines", what, line)}
			}
			if err := each(strings.TrimSpace(line[:i]), strings.TrimSpace(line[i+1:])); err != nil {
				return &usageError{fmt.Sprintf("%s: %v", what, err)}
			}
		}
	}
	return nil
}

func (f *flags) verifyKeys(what string, texts []string) (map[string]ed25519.PublicKey, error) {
	keys := make(map[string]ed25519.PublicKey)
	err := f.pairs(what, texts, func(kid, public string) (err error) {
		keys[kid], err = seal.ParseVerifyKey(public)
		return err
	})
	return keys, err
}

func (f *flags) recipients(what string, texts []string) (to []seal.Recipient, err error) {
	err = f.pairs(what, texts, func(kid, public string) error {
		var key *ecdh.PublicKey
		key, err := seal.ParseEncryptKey(public)
		to = append(to, seal.Recipient{Kid: kid, Key: key})
		return err
	})
	return to, err
}
