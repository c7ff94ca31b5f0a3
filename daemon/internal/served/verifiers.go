package served

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
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/access/token"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/profiles/cred"
)

// Verifiers holds the keys and digests that verify the credentials of peers, read from
// files. It implements cred.Digests.
type Verifiers struct {
	part.Passive
	served *Profiles
	self   func() string // the identity of this endpoint
	tokens *token.Verifier
	conf   config.Cred // initial configuration of the profile
	now    atomic.Pointer[evidence]
}

// evidence is the result of one reading of the files.
type evidence struct {
	issuers map[string]token.Issuer
	digests [][sha256.Size]byte
	types   map[string]bool // accepted types of credentials
}

// NewVerifiers reads the files. self returns the identity of this endpoint.
func NewVerifiers(c *config.Config, served *Profiles, self func() string) (*Verifiers, error) {
	e, err := readEvidence(&c.Cred)
	if err != nil {
		return nil, err
	}
	v := &Verifiers{served: served, self: self, tokens: token.New(nil), conf: c.Cred}
	v.put(e)
	return v, nil
}

// Offer implements part.Part.
func (v *Verifiers) Offer(o *all.Options) error {
	store := o.Cred.Store
	o.Cred = v.options(&v.conf)
	o.Cred.Store = store
	return nil
}

// put replaces keys and digests. Delegation chains that rest on removed ones become
// invalid.
func (v *Verifiers) put(e *evidence) {
	v.now.Store(e)
	v.tokens.Set(e.issuers)
}

// VerifiersSection is the reloadable part of the configuration.
func VerifiersSection(prepare part.Prepare) part.Section {
	return part.Section{
		Name: "keys of credentials", Stays: "the old ones stay in force", Files: verifierFiles, Prepare: prepare,
		Keys: []string{
			"cred.issuers", "cred.opaque", "cred.audience", "cred.leeway", "cred.max_depth", "cred.max_lifetime", "cred.chains", "cred.chains_per_identity", "cred.forward",
		},
	}
}

// Prepare reads the keys and digests.
func (v *Verifiers) Prepare(c *config.Config) (part.Change, error) {
	e, err := readEvidence(&c.Cred)
	return part.Change{
		Fields: []zap.Field{zap.Int("issuers", len(c.Cred.Issuers))},
		Commit: func() bool {
			v.put(e)
			_ = v.served.set.Cred.SetLimits(v.options(&c.Cred)) // the configuration was checked
			return true
		},
	}, err
}

// maxKeyFile and maxDigestFile limit the sizes of files, in octets.
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
		file, err := part.ReadUpTo(c.Keys, maxKeyFile)
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

// readDigests reads one digest a line: 64 hexadecimal digits, optionally followed by a
// comment. Empty lines and lines that begin with # are ignored.
func readDigests(name string) (list [][sha256.Size]byte, err error) {
	if name == "" {
		return nil, nil
	}
	file, err := part.ReadUpTo(name, maxDigestFile)
	if err != nil {
		return nil, fmt.Errorf("cred.opaque: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(file))
	for n := 1; lines.Scan(); n++ {
		digits, _, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if digits == "" || digits[0] == '#' {
			continue
		}
		// A malformed line may be a credential, so the error must not show it.
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
func (v *Verifiers) Listed(sum [sha256.Size]byte) bool {
	found := 0
	for _, listed := range v.now.Load().digests {
		found |= subtle.ConstantTimeCompare(listed[:], sum[:])
	}
	return found == 1
}

// verifierFiles lists the files that the section watches.
func verifierFiles(c *config.Config) (files []string) {
	if c.Cred.Opaque != "" {
		files = append(files, c.Cred.Opaque)
	}
	for _, issuer := range c.Cred.Issuers {
		files = append(files, issuer.Keys)
	}
	return files
}

// takes reports whether credentials of a type are accepted now.
func (v *Verifiers) takes(kind string) bool { return v.now.Load().types[kind] }

// options configure CRED.
func (v *Verifiers) options(c *config.Cred) cred.Options {
	o := cred.Options{
		Tokens: v.tokens, Digests: v, Takes: v.takes, Keep: c.Forward, Audience: c.Audience, Leeway: c.Leeway, MaxDepth: c.MaxDepth,
		MaxLifetime: c.MaxLifetime, PerIdentity: c.ChainsPerIdentity, Chains: c.Chains,
	}
	if len(o.Audience) == 0 {
		o.Audience = []string{v.self()}
	}
	return o
}
