package daemon

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/slimwire/swp/access/token"
	"github.com/slimwire/swp/daemon/boundlog"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/profiles/cred"
)

// verifiers are the keys and digests that credentials of peers are held against,
// as their files have them. It implements cred.Digests.
type verifiers struct {
	config  *config.Cred
	log     *zap.Logger
	tokens  *token.Verifier
	digests atomic.Pointer[[][sha256.Size]byte]
	failure atomic.Pointer[string] // why the files cannot be used now; nil if they can

	mu    sync.Mutex
	stamp string // what the files looked like when they were read last
}

func newVerifiers(c *config.Config, log *zap.Logger) (*verifiers, error) {
	v := &verifiers{config: &c.Cred, log: log, tokens: token.New(nil)}
	v.stamp = v.look()
	return v, v.read()
}

// maxKeyFile and maxDigestFile bound what is read, in octets.
const (
	maxKeyFile    = 64 << 10
	maxDigestFile = 1 << 20
)

// read reads all files, and puts them in force if all are good.
func (v *verifiers) read() error {
	issuers := make(map[string]token.Issuer)
	for i, c := range v.config.Issuers {
		file, err := readUpTo(c.Keys, maxKeyFile)
		if err != nil {
			return fmt.Errorf("cred.issuers[%d].keys: %w", i, err)
		}
		keys, err := token.ParseKeys(file)
		if err != nil {
			return fmt.Errorf("cred.issuers[%d].keys: %s: %w", i, c.Keys, err)
		}
		issuers[c.Issuer] = token.Issuer{Keys: keys, Bearer: c.Bearer, Delegates: c.Delegates}
	}
	digests, err := v.readDigests()
	if err != nil {
		return err
	}
	v.tokens.Set(issuers)
	v.digests.Store(&digests)
	return nil
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

// look describes the files without opening them.
func (v *verifiers) look() string {
	var files []string
	if v.config.Opaque != "" {
		files = append(files, v.config.Opaque)
	}
	for _, issuer := range v.config.Issuers {
		files = append(files, issuer.Keys)
	}
	return stampOf(files...)
}

// refresh reads the files again if they have changed, or could not be used, or
// always. What was read before stays if they cannot be used.
func (v *verifiers) refresh(always bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	stamp := v.look()
	if !always && stamp == v.stamp && v.failure.Load() == nil {
		return nil
	}
	changed := stamp != v.stamp
	v.stamp = stamp
	if err := v.read(); err != nil {
		text := boundlog.CleanLines(err.Error())
		if old := v.failure.Swap(&text); old == nil || *old != text {
			v.log.Error("keys of credentials not reloaded, the old ones stay in force", zap.Error(err))
		}
		return err
	}
	if v.failure.Swap(nil) != nil || changed {
		v.log.Info("keys of credentials reloaded", zap.Int("issuers", len(v.config.Issuers)))
	}
	return nil
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
