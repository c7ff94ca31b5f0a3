package trust

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slimwire/swp/sdl/canonical"
	"github.com/slimwire/swp/sdl/seal"
)

// ReadKeyFile reads an object with the members of a registry and decrypt_private_keys
// (§7.1). registry is for NewRegistry. Every key must be valid.
func ReadKeyFile(v canonical.Value) (registry canonical.Value, decrypt map[string]*ecdh.PrivateKey, err error) {
	texts, err := textsOf(v, memberDecrypt)
	if err != nil {
		return registry, nil, err
	}
	decrypt = make(map[string]*ecdh.PrivateKey, len(texts))
	for kid, text := range texts {
		if decrypt[kid], err = seal.ParseDecryptKey(text); err != nil {
			return registry, nil, fmt.Errorf("%w (%s[%q])", err, memberDecrypt, kid)
		}
	}
	registry = v.Without(memberDecrypt).Without(memberEncrypt)
	if _, err := parseMembers(registry); err != nil {
		return registry, nil, err
	}
	if _, err := verifyKeys(registry, memberKeys); err != nil {
		return registry, nil, err
	}
	return registry, decrypt, nil
}

// memberEncrypt is the member of a key file with the keys to which answers are encrypted.
const memberEncrypt = "encrypt_public_keys"

// ReadRecipients reads encrypt_public_keys of a key file: the keys to which answers to
// an agent are encrypted, by agent_id. Their kids are AGENT_ID#LABEL.
func ReadRecipients(v canonical.Value) (map[string][]seal.Recipient, error) {
	texts, err := textsOf(v, memberEncrypt)
	if err != nil {
		return nil, err
	}
	to := make(map[string][]seal.Recipient)
	for _, kid := range slices.Sorted(maps.Keys(texts)) {
		agent := kid[:max(0, strings.LastIndexByte(kid, '#'))]
		if agent == "" || !bound(kid, agent) {
			return nil, fmt.Errorf("trust: %s[%q]: want a kid of the form AGENT_ID#LABEL", memberEncrypt, kid)
		}
		key, err := seal.ParseEncryptKey(texts[kid])
		if err != nil {
			return nil, fmt.Errorf("%w (%s[%q])", err, memberEncrypt, kid)
		}
		to[agent] = append(to[agent], seal.Recipient{Kid: kid, Key: key})
	}
	return to, nil
}

// ReadQuorumFile reads an object with approver_keys, public keys by name, and threshold,
// default 1 (§10.4).
func ReadQuorumFile(v canonical.Value) (*Quorum, error) {
	approvers, err := verifyKeys(v, "approver_keys")
	if err != nil {
		return nil, err
	}
	threshold := int64(1)
	if v.Has("threshold") {
		var ok bool
		if threshold, ok = v.Get("threshold").Int64(); !ok {
			return nil, fmt.Errorf("trust: quorum: threshold is %v, want an integer", v.Get("threshold").Kind())
		}
	}
	return NewQuorum(approvers, int(max(0, min(threshold, 1<<30)))) // the same on every machine
}

func verifyKeys(v canonical.Value, name string) (map[string]ed25519.PublicKey, error) {
	texts, err := textsOf(v, name)
	if err != nil {
		return nil, err
	}
	keys := make(map[string]ed25519.PublicKey, len(texts))
	for kid, text := range texts {
		if keys[kid], err = seal.ParseVerifyKey(text); err != nil {
			return nil, fmt.Errorf("%w (%s[%q])", err, name, kid)
		}
	}
	return keys, nil
}
