package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/slimwire/swp/internal/bridge/gate"
	"github.com/slimwire/swp/internal/spiffe"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/all"
	"github.com/slimwire/swp/transport"
)

// Partners are partners by name, which is the first segment of the names behind them.
type Partners map[string]Partner

// Identities returns the identities of the partners, by name.
func (p Partners) Identities() map[string]string {
	list := make(map[string]string, len(p))
	for name, one := range p {
		list[name] = one.Identity
	}
	return list
}

// Partner is another organisation's endpoint, to which this one keeps a session.
type Partner struct {
	Identity   string    `yaml:"identity"`                            // in its certificate
	Addresses  []Address `yaml:"addresses"`                           // dialled in order; empty: the partner dials
	Trust      []string  `yaml:"trust"`                               // PEM bundles of its only authorities; empty: trust.ca
	CRL        []string  `yaml:"crl"`                                 // revocation lists of the authorities of Trust
	Tell       string    `yaml:"tell" choice:"none,pseudonym,caller"` // who calls
	Trace      string    `yaml:"trace" choice:"parent,full,none"`
	InFlight   int       `yaml:"in_flight"`  // requests of its link
	Profiles   []string  `yaml:"profiles"`   // that it serves; empty: it is asked
	Extensions bool      `yaml:"extensions"` // it supports targets, sessions and agents without declaring it

	Bundle PartnerBundle `yaml:"bundle"` // source of authorities that change

	Queue       PartnerQueue `yaml:"queue"`
	ErrorFrames bool         `yaml:"error_frames"`
	Hints       Hints        `yaml:"hints"`

	Allow      []PartnerRule `yaml:"allow"`      // what it may do here, besides access.rules
	NamedOnly  bool          `yaml:"named_only"` // of access, only rules apply to it that name its identity in full
	OwnsData   bool          `yaml:"owns_data"`  // data that came from another peer with its identity is its own
	State      string        `yaml:"state" choice:"active,suspended,revoked"`
	ValidUntil Date          `yaml:"valid_until"`
	ReviewBy   Date          `yaml:"review_by"`

	Pinned map[string]string `yaml:"pinned"` // digests of the only tools that may be called, by SERVER/TOOL; empty: all may
}

// PartnerBundle is the source of the authorities of a partner: of its SPIFFE trust domain. If it
// is empty they are those of Trust; else those of Trust are in use until there is a bundle.
type PartnerBundle struct {
	Source     string   `yaml:"source" choice:"https_web,https_spiffe,workload_api"`
	URL        string   `yaml:"url"`         // of the bundle endpoint
	EndpointID string   `yaml:"endpoint_id"` // of an endpoint of https_spiffe
	CA         []string `yaml:"ca"`          // PEM bundles for an endpoint of https_web; empty: those of the system
}

// Values of partners.<name>.bundle.source.
const (
	BundleWeb      = "https_web"
	BundleSPIFFE   = "https_spiffe"
	BundleWorkload = "workload_api"
)

// PartnerRule is an AccessRule for the identity of its partner.
type PartnerRule struct {
	For       List `yaml:"for"`
	Profile   List `yaml:"profile"`
	Operation List `yaml:"operation"`
	Name      List `yaml:"name"`
}

// PartnerQueue bounds the deliveries that wait for a partner.
type PartnerQueue struct {
	Size     Size `yaml:"size"`     // octets
	Messages int  `yaml:"messages"` //
}

// defaultPartner has the defaults of an entry.
var defaultPartner = Partner{Tell: TellPseudonym, Trace: TraceParent, InFlight: 4096, Queue: PartnerQueue{1 << 30, 1_000_000}, State: StateActive}

// Values of partners.<name>.tell.
const (
	TellNone      = "none"
	TellPseudonym = "pseudonym"
	TellCaller    = "caller"
)

// Values of partners.<name>.trace.
const (
	TraceParent = "parent"
	TraceFull   = "full"
	TraceNone   = "none"
)

func (c *Config) resolvePartners(dir string) {
	for _, p := range c.Partners {
		for _, files := range [][]string{p.Trust, p.CRL, p.Bundle.CA} {
			for i, file := range files {
				if file != "" && !filepath.IsAbs(file) {
					files[i] = filepath.Join(dir, file)
				}
			}
		}
	}
}

// takenNames begin names of kinds and methods that are of this project or of a
// specification: a partner of such a name would capture them.
var takenNames = []string{"a2a", "slip", "sdl", "swp"}

func (c *Config) checkPartners(p *problems) {
	byIdentity := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(c.Partners)) {
		conf, key := c.Partners[name], "partners."+name
		checkName(p, key, name, "; '/' separates a partner from what is behind it")
		if slices.Contains(takenNames, name) {
			p.add(key, "%q begins names of another meaning, such as %s/…; choose another name", name, name)
		}
		checkPartnerIdentity(p, key+".identity", conf.Identity)
		if other, taken := byIdentity[conf.Identity]; taken && conf.Identity != "" {
			p.add(key+".identity", "%.200q is that of partners.%s too", conf.Identity, other)
		}
		byIdentity[conf.Identity] = name
		for i, a := range conf.Addresses {
			at := fmt.Sprintf("%s.addresses[%d]", key, i)
			switch {
			case a.Transport == "tcp":
				p.add(at, "%s is plaintext, which does not authenticate the partner; want swp+tls or swp+quic", a)
			case a.Host == "" || a.Port == 0:
				p.add(at, "%s names no host or no port to dial", a)
			default:
				if i := slices.IndexFunc(c.Listeners, func(l Listener) bool { return l.Address == a }); i >= 0 {
					p.add(at, "%s is listeners[%d].address of this endpoint; name that of the partner", a, i)
				}
			}
		}
		for i, file := range conf.Trust {
			readable(p, fmt.Sprintf("%s.trust[%d]", key, i), file)
		}
		for i, file := range conf.CRL {
			readable(p, fmt.Sprintf("%s.crl[%d]", key, i), file)
		}
		if len(conf.CRL) > 0 && len(conf.Trust) == 0 {
			p.add(key+".crl", "is set without trust; name lists of the authorities of trust.ca in trust.crl")
		}
		c.checkBundle(p, key, &conf)
		for i, profile := range conf.Profiles {
			if !slices.ContainsFunc(all.Tables(), func(t *profiles.Profile) bool { return t.Name == profile }) {
				p.add(fmt.Sprintf("%s.profiles[%d]", key, i), "%.64q is no profile that goes to a partner", profile)
			}
		}
		if conf.InFlight < 1 || conf.InFlight > 1_000_000 {
			p.add(key+".in_flight", "is %d, want 1 to 1000000", conf.InFlight)
		}
		if least := c.RelayPayload() + relayOverhead; conf.Queue.Size < least {
			p.add(key+".queue.size", "is %s, want at least %s: one delivery of relay.max_payload", conf.Queue.Size, least)
		}
		if conf.Queue.Messages < 1 || conf.Queue.Messages > 1<<30 {
			p.add(key+".queue.messages", "is %d, want 1 to %d", conf.Queue.Messages, 1<<30)
		}
		conf.Hints.check(p, key+".hints")
		checkPinned(p, key+".pinned", conf.Pinned)
		if !conf.ReviewBy.IsZero() && !conf.ValidUntil.IsZero() && conf.ValidUntil.Before(conf.ReviewBy.Time) {
			p.add(key+".review_by", "%s is after valid_until, %s, when the partnership ends; set an earlier date", conf.ReviewBy, conf.ValidUntil)
		}
	}
}

// checkBundle checks the source of the authorities of a partner.
func (c *Config) checkBundle(p *problems, key string, conf *Partner) {
	b, domain := conf.Bundle, transport.TrustDomain(conf.Identity)
	key += ".bundle"
	if b.Source == "" {
		if b.URL != "" || b.EndpointID != "" || len(b.CA) > 0 {
			p.add(key+".source", "missing; want %s, %s or %s", BundleWeb, BundleSPIFFE, BundleWorkload)
		}
		return
	}
	if domain == "" {
		p.add(key, "is that of a SPIFFE trust domain, and %.200q is not a SPIFFE ID; use trust", conf.Identity)
	}
	if len(conf.CRL) > 0 {
		p.add(key, "is set beside crl, whose authorities are in files; leave one out")
	}
	if b.Source == BundleWorkload {
		if c.Identity.SPIFFE == "" {
			p.add(key+".source", "is %s without identity.spiffe, which names the Workload API", b.Source)
		}
		if b.URL != "" || len(conf.Trust) > 0 {
			p.add(key, "has a url, or trust beside it, which are not used with the source %s", b.Source)
		}
	} else if err := spiffe.CheckEndpoint(b.URL); err != nil {
		p.add(key+".url", "%v", err)
	}
	if b.Source == BundleSPIFFE {
		p.checkSPIFFEID(key+".endpoint_id", b.EndpointID)
		if transport.TrustDomain(b.EndpointID) != domain {
			p.add(key+".endpoint_id", "%.200q is not of the trust domain %.200q, whose bundle verifies it", b.EndpointID, domain)
		}
		if len(conf.Trust) == 0 {
			p.add(key, "needs trust beside it, the authorities that verify the endpoint until the first bundle is here")
		}
	} else if b.EndpointID != "" {
		p.add(key+".endpoint_id", "is for the source %s", BundleSPIFFE)
	}
	if b.Source != BundleWeb && len(b.CA) > 0 {
		p.add(key+".ca", "is for the source %s", BundleWeb)
	}
	for i, file := range b.CA {
		readable(p, fmt.Sprintf("%s.ca[%d]", key, i), file)
	}
}

// checkPartnerIdentity refuses an identity that no certificate can have. Whether it is
// the identity of this endpoint is checked later, with the certificates.
func checkPartnerIdentity(p *problems, key, identity string) {
	caller, ofHTTP := strings.CutPrefix(identity, gate.Prefix)
	switch {
	case identity == "":
		p.add(key, "missing; name who it must be, such as spiffe://example.org/swpd")
	case ofHTTP && gate.ValidName(caller):
		p.add(key, "%.200q is what callers over HTTP are called, which no certificate may say; name the partner's own, such as spiffe://example.org/swpd", identity)
	case strings.HasPrefix(identity, teamPrefix):
		p.add(key, "%.200q is what teams of this endpoint are called, which no certificate may say; name the partner's own, such as spiffe://example.org/swpd", identity)
	case strings.Contains(identity, "*"), !canonical(identity):
		p.add(key, "%.200q is not what a certificate says: its one URI name, or its one DNS name, in full, such as spiffe://example.org/swpd; scheme and host in lower case", identity)
	}
}

// teamPrefix is the prefix of the identities of teams.
const teamPrefix = "team:"

var digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func checkPinned(p *problems, key string, pins map[string]string) {
	for _, tool := range slices.Sorted(maps.Keys(pins)) {
		switch server, name, ok := strings.Cut(tool, "/"); {
		case !ok || server == "" || name == "":
			p.add(key, "%.200q is no tool, want SERVER/TOOL as swpd partner pin lists them", tool)
		case !digest.MatchString(pins[tool]):
			p.add(key+"."+tool, "is %.80q, want sha256: and 64 hexadecimal digits, as swpd partner pin writes them", pins[tool])
		}
	}
}
