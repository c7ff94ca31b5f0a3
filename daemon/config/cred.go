package config

import (
	"fmt"
	"path/filepath"
	"time"
)

// Cred configures profile 15.
type Cred struct {
	Issuers  []Issuer `yaml:"issuers"`
	Opaque   string   `yaml:"opaque"`   // file of SHA-256 digests, one a line; empty: none are taken
	Audience List     `yaml:"audience"` // names of this endpoint in tokens; empty: its identity

	Leeway      time.Duration `yaml:"leeway"` // between the clocks of issuers and this one
	MaxDepth    int           `yaml:"max_depth"`
	MaxLifetime time.Duration `yaml:"max_lifetime"` // of delegations, and of credentials without an end

	Chains            int  `yaml:"chains"`
	ChainsPerIdentity int  `yaml:"chains_per_identity"`
	Forward           bool `yaml:"forward"` // keep tokens, and take them along with tasks that go on
}

// Issuer is an issuer of accepted tokens.
type Issuer struct {
	Issuer    string `yaml:"issuer"`    // iss
	Keys      string `yaml:"keys"`      // file: a JWK Set, or PEM
	Bearer    bool   `yaml:"bearer"`    // its tokens are valid for any holder
	Delegates bool   `yaml:"delegates"` // its tokens go on with a chain, and never begin one
}

// defaultCred has the defaults.
func defaultCred() Cred {
	return Cred{MaxDepth: 8, MaxLifetime: 24 * time.Hour, Chains: 16_384, ChainsPerIdentity: 256}
}

func (c *Config) resolveCred(dir string) {
	files := []*string{&c.Cred.Opaque}
	for i := range c.Cred.Issuers {
		files = append(files, &c.Cred.Issuers[i].Keys)
	}
	for _, file := range files {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(dir, *file)
		}
	}
}

func (c *Config) checkCred(p *problems) {
	seen := make(map[string]bool)
	for i, issuer := range c.Cred.Issuers {
		key := fmt.Sprintf("cred.issuers[%d]", i)
		switch {
		case issuer.Issuer == "":
			p.add(key+".issuer", "missing; set the iss of its tokens")
		case seen[issuer.Issuer]:
			p.add(key+".issuer", "%.200q is listed twice; put all its keys into one file", issuer.Issuer)
		}
		seen[issuer.Issuer] = true
		if issuer.Keys == "" {
			p.add(key+".keys", "missing; name the file that holds its public keys")
		}
		readable(p, key+".keys", issuer.Keys)
		if issuer.Bearer && issuer.Delegates {
			p.add(key+".bearer", "is for tokens that begin a chain, and tokens with delegates do not; remove it or delegates")
		}
	}
	readable(p, "cred.opaque", c.Cred.Opaque)
	for i, name := range c.Cred.Audience {
		if name == "" {
			p.addItem("cred.audience", i, "contains an empty name; remove it")
		}
	}
	if most := 5 * time.Minute; c.Cred.Leeway > most {
		p.add("cred.leeway", "is %v, want at most %v", c.Cred.Leeway, most)
	}
	if most := 365 * 24 * time.Hour; c.Cred.MaxLifetime < time.Second || c.Cred.MaxLifetime > most {
		p.add("cred.max_lifetime", "is %v, want 1s to %v", c.Cred.MaxLifetime, most)
	}
	for _, row := range []struct {
		key         string
		value, most int
	}{
		{"max_depth", c.Cred.MaxDepth, 8},
		{"chains", c.Cred.Chains, 1 << 20},
		{"chains_per_identity", c.Cred.ChainsPerIdentity, c.Cred.Chains},
	} {
		if row.value < 1 || row.value > row.most {
			p.add("cred."+row.key, "is %d, want 1 to %d", row.value, max(1, row.most))
		}
	}
}
