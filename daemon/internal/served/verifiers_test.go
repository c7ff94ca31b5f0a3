package served

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/access/token"
	"github.com/slimwire/swp/profiles/cred"
)

func publicKey(t *testing.T, name string) []byte {
	t.Helper()
	seed := sha256.Sum256([]byte(name))
	der, err := x509.MarshalPKIXPublicKey(ed25519.NewKeyFromSeed(seed[:]).Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func thumbprint(t *testing.T, file []byte) string {
	t.Helper()
	keys, err := token.ParseKeys(file)
	if err != nil {
		t.Fatal(err)
	}
	return keys[0].Thumbprint()
}

func TestKeysAndDigestsOfCredentialsAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	keys, digests := filepath.Join(dir, "keys"), filepath.Join(dir, "digests")
	write := func(name string, octets []byte) {
		t.Helper()
		if err := os.WriteFile(name, octets, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one, two := publicKey(t, "one"), publicKey(t, "two")
	secret := sha256.Sum256([]byte("secret"))
	write(keys, one)
	write(digests, []byte("# of the build\n\n"+strings.ToUpper(hex.EncodeToString(secret[:]))+" since May\n"))
	c := &config.Config{Cred: config.Cred{Issuers: []config.Issuer{{Issuer: "i", Keys: keys}}, Opaque: digests}}
	v, err := NewVerifiers(c, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	trusts := func(file []byte) bool { return v.tokens.Trusts("i", thumbprint(t, file), false) }
	if !trusts(one) || trusts(two) || !v.Listed(secret) || v.Listed(sha256.Sum256([]byte("other"))) {
		t.Error("what is in the files is not what is in force")
	}
	again := func() error {
		e, err := readEvidence(&c.Cred)
		if err == nil {
			v.put(e)
		}
		return err
	}
	write(keys, two)
	if err := again(); err != nil || trusts(one) || !trusts(two) {
		t.Errorf("after the key was replaced: %v", err)
	}
	write(digests, []byte("canary-of-a-credential\n"))
	err = again()
	if err == nil || strings.Contains(err.Error(), "canary") || !v.Listed(secret) || !trusts(two) {
		t.Errorf("after the digests were damaged: %v", err)
	}
	write(digests, nil)
	if err := again(); err != nil || v.Listed(secret) {
		t.Errorf("after they were emptied: %v", err)
	}
	c.Cred = config.Cred{Issuers: []config.Issuer{{Issuer: "i", Keys: keys, Delegates: true}}}
	if err := again(); err != nil || trusts(two) || !v.tokens.Trusts("i", thumbprint(t, two), true) || !v.takes(cred.JWT) || v.takes(cred.Opaque) {
		t.Errorf("after the list was changed: %v", err)
	}
	c.Cred = config.Cred{}
	if err := again(); err != nil || v.takes(cred.JWT) {
		t.Errorf("after the list was emptied: %v", err)
	}
	if _, err := NewVerifiers(&config.Config{Cred: config.Cred{Issuers: []config.Issuer{{Issuer: "i", Keys: digests}}}}, nil, nil); err == nil {
		t.Error("an empty file was taken as keys")
	}
}
