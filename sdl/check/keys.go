package check

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"fmt"
	"os"

	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
)

// Keys are the key pairs that cases name. A nil *Keys has none.
type Keys struct{ pairs canonical.Value }

// LoadKeys reads a file of key pairs: an object with the member keys, whose members
// are the names of the keys and have private_key_b64 and public_key_b64.
func LoadKeys(file string) (*Keys, error) {
	octets, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	v, err := canonical.ParseJSON(octets)
	if err != nil {
		return nil, fmt.Errorf("check: %s: %w", file, err)
	}
	pairs := v.Get("keys")
	if pairs.Kind() != canonical.KindObject {
		return nil, fmt.Errorf("check: %s: keys: is %s, want object", file, pairs.Kind())
	}
	return &Keys{pairs}, nil
}

// private and public return a key as text, and note as a difference that it is not
// there.
func (k *Keys) private(s *shape, name string) string { return k.part(s, name, "private_key_b64") }
func (k *Keys) public(s *shape, name string) string  { return k.part(s, name, "public_key_b64") }

func (k *Keys) part(s *shape, name, part string) string {
	if k == nil {
		s.fault("config", "names the key %q: there is no file of keys, say which with --keys", name)
		return ""
	}
	t := k.text(name, part)
	if t == "" {
		s.fault("config", "names the key %q, which has no %s in the file of keys", name, part)
	}
	return t
}

// verifyKey returns the key of a kid, and whether there is one that can be read.
func (k *Keys) verifyKey(kid string) (ed25519.PublicKey, bool) {
	key, err := seal.ParseVerifyKey(k.text(kid, "public_key_b64"))
	return key, err == nil
}

// decryptKey returns the key of a kid, nil if it is missing or unreadable.
func (k *Keys) decryptKey(kid string) *ecdh.PrivateKey {
	key, err := seal.ParseDecryptKey(k.text(kid, "private_key_b64"))
	if err != nil {
		return nil
	}
	return key
}

func (k *Keys) text(name, part string) string {
	if k == nil {
		return ""
	}
	t, _ := k.pairs.Get(name).Get(part).Text()
	return t
}
