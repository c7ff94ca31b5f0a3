package daemon

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/access/token"
	"github.com/slimwire/swp/profiles/cred"
)

// verifiers are the keys and digests that credentials of peers are held against,
// as their files have them. It implements cred.Digests.
type verifiers struct {
	config  *config.Cred
	tokens  *token.Verifier
	digests atomic.Pointer[[][sha256.Size]byte]
}

func newVerifiers(c *config.Config) (*verifiers, error) {
	v := &verifiers{config: &c.Cred, tokens: token.New(nil)}
	put, err := v.read()
	if err != nil {
		return nil, err
	}
	put()
	return v, nil
}

// prepareVerifiers reads the keys and digests. Which files those are does not change.
func (d *daemon) prepareVerifiers(*config.Config) (change, error) {
	put, err := d.verifiers.read()
	return change{
		fields: []zap.Field{zap.Int("issuers", len(d.verifiers.config.Issuers))},
		commit: func() bool {
			put()
			return false
		},
	}, err
}

// maxKeyFile and maxDigestFile bound what is read, in octets.
const (
	maxKeyFile    = 64 << 10
	maxDigestFile = 1 << 20
)

// read reads all files, and returns what puts them in force.
func (v *verifiers) read() (put func(), err error) {
	issuers := make(map[string]token.Issuer)
	for i, c := range v.config.Issuers {
		file, err := readUpTo(c.Keys, maxKeyFile)
		if err != nil {
			return nil, fmt.Errorf("cred.issuers[%d].keys: %w", i, err)
		}
		keys, err := token.ParseKeys(file)
		if err != nil {
			return nil, fmt.Errorf("cred.issuers[%d].keys: %s: %w", i, c.Keys, err)
		}
		issuers[c.Issuer] = token.Issuer{Keys: keys, Bearer: c.Bearer, Delegates: c.Delegates}
	}
	digests, err := v.readDigests()
	if err != nil {
		return nil, err
	}
	return func() {
		v.tokens.Set(issuers)
		v.digests.Store(&digests)
	}, nil
}

// readDigests reads the digests: 64 hexadecimal digits a line, then what anybody
// wants to say about them. Empty lines and those that begin with # say nothing.
func (v *verifiers) readDigests() (list [][sha256.Size]byte, err error) {
	if v.config.Opaque == "" {
		return nil, nil
	}
	file, err := readUpTo(v.config.Opaque, maxDigestFile)
	if err != nil {
		return nil, fmt.Errorf("cred.opaque: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(file))
	for n := 1; lines.Scan(); n++ {
		digits, _, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if digits == "" || digits[0] == '#' {
			continue
		}
		// What is no digest may be a credential, and is not shown.
		sum, err := hex.DecodeString(digits)
		if err != nil || len(sum) != sha256.Size {
			return nil, fmt.Errorf("cred.opaque: %s: line %d is no SHA-256 of %d hexadecimal digits", v.config.Opaque, n, 2*sha256.Size)
		}
		list = append(list, [sha256.Size]byte(sum))
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("cred.opaque: %s: %w", v.config.Opaque, err)
	}
	return list, nil
}

// Listed implements cred.Digests.
func (v *verifiers) Listed(sum [sha256.Size]byte) bool {
	found := 0
	for _, listed := range *v.digests.Load() {
		found |= subtle.ConstantTimeCompare(listed[:], sum[:])
	}
	return found == 1
}

// verifierFiles are those that section keys of credentials reads again.
func verifierFiles(c *config.Config) (files []string) {
	if c.Cred.Opaque != "" {
		files = append(files, c.Cred.Opaque)
	}
	for _, issuer := range c.Cred.Issuers {
		files = append(files, issuer.Keys)
	}
	return files
}

// options configure CRED. identity is that of this endpoint.
func (v *verifiers) options(store cred.Store, identity string) cred.Options {
	c := v.config
	o := cred.Options{
		Store: store, Keep: c.Forward, Audience: c.Audience, Leeway: c.Leeway, MaxDepth: c.MaxDepth,
		MaxLifetime: c.MaxLifetime, PerIdentity: c.ChainsPerIdentity, Chains: c.Chains,
	}
	if len(o.Audience) == 0 {
		o.Audience = []string{identity}
	}
	if len(c.Issuers) > 0 {
		o.Tokens = v.tokens
	}
	if c.Opaque != "" {
		o.Digests = v
	}
	return o
}
