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
	tokens *token.Verifier
	now    atomic.Pointer[evidence]
}

// evidence is one reading of the files.
type evidence struct {
	issuers map[string]token.Issuer
	digests [][sha256.Size]byte
	types   map[string]bool // of credentials that are taken
}

func newVerifiers(c *config.Config) (*verifiers, error) {
	e, err := readEvidence(&c.Cred)
	if err != nil {
		return nil, err
	}
	v := &verifiers{tokens: token.New(nil)}
	v.put(e)
	return v, nil
}

// put holds credentials against other keys and digests. Chains of those that are gone are
// of no use from then on.
func (v *verifiers) put(e *evidence) {
	v.now.Store(e)
	v.tokens.Set(e.issuers)
}

// prepareVerifiers reads the keys and digests.
func (d *daemon) prepareVerifiers(c *config.Config) (change, error) {
	e, err := readEvidence(&c.Cred)
	return change{
		fields: []zap.Field{zap.Int("issuers", len(c.Cred.Issuers))},
		commit: func() bool {
			d.verifiers.put(e)
			// The configuration has checked what these want.
			_ = d.profiles.Cred.SetLimits(d.verifiers.options(&c.Cred, d.state, d.credentials.identity()))
			return false
		},
	}, err
}

// maxKeyFile and maxDigestFile bound what is read, in octets.
const (
	maxKeyFile    = 64 << 10
	maxDigestFile = 1 << 20
)

// readEvidence reads all files.
func readEvidence(conf *config.Cred) (*evidence, error) {
	e := &evidence{
		issuers: make(map[string]token.Issuer), types: map[string]bool{cred.JWT: len(conf.Issuers) > 0, cred.Opaque: conf.Opaque != ""},
	}
	for i, c := range conf.Issuers {
		file, err := readUpTo(c.Keys, maxKeyFile)
		if err != nil {
			return nil, fmt.Errorf("cred.issuers[%d].keys: %w", i, err)
		}
		keys, err := token.ParseKeys(file)
		if err != nil {
			return nil, fmt.Errorf("cred.issuers[%d].keys: %s: %w", i, c.Keys, err)
		}
		e.issuers[c.Issuer] = token.Issuer{Keys: keys, Bearer: c.Bearer, Delegates: c.Delegates}
	}
	var err error
	e.digests, err = readDigests(conf.Opaque)
	return e, err
}

// readDigests reads the digests: 64 hexadecimal digits a line, then what anybody
// wants to say about them. Empty lines and those that begin with # say nothing.
func readDigests(name string) (list [][sha256.Size]byte, err error) {
	if name == "" {
		return nil, nil
	}
	file, err := readUpTo(name, maxDigestFile)
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
			return nil, fmt.Errorf("cred.opaque: %s: line %d is no SHA-256 of %d hexadecimal digits", name, n, 2*sha256.Size)
		}
		list = append(list, [sha256.Size]byte(sum))
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("cred.opaque: %s: %w", name, err)
	}
	return list, nil
}

// Listed implements cred.Digests.
func (v *verifiers) Listed(sum [sha256.Size]byte) bool {
	found := 0
	for _, listed := range v.now.Load().digests {
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

// takes reports whether credentials of a type are taken now.
func (v *verifiers) takes(kind string) bool { return v.now.Load().types[kind] }

// options configure CRED. identity is that of this endpoint.
func (v *verifiers) options(c *config.Cred, store cred.Store, identity string) cred.Options {
	o := cred.Options{
		Store: store, Tokens: v.tokens, Digests: v, Takes: v.takes, Keep: c.Forward, Audience: c.Audience, Leeway: c.Leeway, MaxDepth: c.MaxDepth,
		MaxLifetime: c.MaxLifetime, PerIdentity: c.ChainsPerIdentity, Chains: c.Chains,
	}
	if len(o.Audience) == 0 {
		o.Audience = []string{identity}
	}
	return o
}
