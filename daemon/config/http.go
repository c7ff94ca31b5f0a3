package config

import (
	"crypto/x509"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slimwire/swp/internal/bridge/a2afront"
	"github.com/slimwire/swp/internal/bridge/gate"
	"github.com/slimwire/swp/transport"
)

// HTTP configures the fronts for programs that do not speak SWP.
type HTTP struct {
	Address   string                `yaml:"address"`   // host:port, or "off"
	Callers   map[string]HTTPCaller `yaml:"callers"`   // by name
	Anonymous string                `yaml:"anonymous"` // name of callers without a token or certificate; empty: they are refused
	Hosts     []string              `yaml:"hosts"`     // names, without port, besides loopback ones
	Origins   []string              `yaml:"origins"`   // allowed origins of web pages
	Calls     int                   `yaml:"calls"`     // requests of one caller at once
	TLS       HTTPTLS               `yaml:"tls"`
	URL       string                `yaml:"url"` // of the fronts for clients; empty: taken from the request
	A2A       HTTPA2A               `yaml:"a2a"`
}

// HTTPA2A is the front for A2A clients.
type HTTPA2A struct {
	Default    string   `yaml:"default"` // agent whose card is at /.well-known/agent-card.json
	Card       string   `yaml:"card" choice:"front,verbatim"`
	Parameters []string `yaml:"parameters"` // headers that are service parameters, besides A2A-*
	TenantV1   bool     `yaml:"tenant_v1"`  // v1 in front of a path is a tenant
}

// Values of http.a2a.card.
const (
	CardFront    = "front"
	CardVerbatim = "verbatim"
)

// HTTPCaller is a program with a bearer token or a client certificate.
type HTTPCaller struct {
	Tokens       []string `yaml:"tokens"`       // SHA-256 of each, in hexadecimal, and its end, as gate.ParseToken
	Certificates []string `yaml:"certificates"` // identity of each, as in transport.Identity
}

// HTTPTLS is the certificate of the fronts, as PEM files. Without one they speak
// plain HTTP.
type HTTPTLS struct {
	Cert string   `yaml:"cert"`
	Key  string   `yaml:"key"`
	CA   []string `yaml:"ca"`  // trust anchors of client certificates; empty: none are asked for
	CRL  []string `yaml:"crl"` // revocation lists of these authorities
}

// Files lists the files.
func (t *HTTPTLS) Files() []string { return slices.Concat([]string{t.Cert, t.Key}, t.CA, t.CRL) }

func (t *HTTPTLS) resolve(dir string) {
	files := []*string{&t.Cert, &t.Key}
	for _, list := range [][]string{t.CA, t.CRL} {
		for i := range list {
			files = append(files, &list[i])
		}
	}
	for _, file := range files {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(dir, *file)
		}
	}
}

// HTTPOff is the value of http.address that turns the fronts off.
const HTTPOff = "off"

// defaultHTTP has the defaults.
func defaultHTTP() HTTP { return HTTP{Address: HTTPOff, Calls: 1024, A2A: HTTPA2A{Card: CardFront}} }

func (c *Config) checkHTTP(p *problems) {
	h := &c.HTTP
	c.checkHTTPAddress(p)
	if h.Calls < 1 || h.Calls > 1_000_000 {
		p.add("http.calls", "is %d, want 1 to 1000000", h.Calls)
	}
	if h.Anonymous != "" && !gate.ValidName(h.Anonymous) {
		p.add("http.anonymous", "%.80q is not a name: 1 to 64 letters, digits, '.', '_' and '-', the first a letter or digit", h.Anonymous)
	}
	if _, taken := h.Callers[h.Anonymous]; taken && h.Anonymous != "" {
		p.add("http.anonymous", "%.80q is a caller with tokens, whose rules would be everybody's; take another name", h.Anonymous)
	}
	c.checkHTTPCallers(p)
	for i, origin := range h.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || u.Scheme+"://"+u.Host != origin {
			p.add(fmt.Sprintf("http.origins[%d]", i), "%.200q is not an origin, such as https://app.example.org", origin)
		}
	}
	c.checkHTTPA2A(p)
	h.TLS.check(p, "http.tls")
}

func (t *HTTPTLS) check(p *problems, key string) {
	switch {
	case t.Cert == "" && t.Key != "":
		p.add(key+".cert", "missing beside %s.key", key)
	case t.Cert != "" && t.Key == "":
		p.add(key+".key", "missing beside %s.cert", key)
	case t.Cert == "" && len(t.CA) > 0:
		p.add(key+".cert", "missing beside %s.ca", key)
	}
	if len(t.CRL) > 0 && len(t.CA) == 0 {
		p.add(key+".crl", "set without %s.ca, whose authorities issue the lists", key)
	}
	for i, file := range t.CRL {
		readable(p, fmt.Sprintf("%s.crl[%d]", key, i), file)
	}
	readable(p, key+".cert", t.Cert)
	private(p, key+".key", t.Key)
	for i, file := range t.CA {
		at := fmt.Sprintf("%s.ca[%d]", key, i)
		if file == "" {
			p.add(at, "is empty; name a PEM file")
		}
		readable(p, at, file)
	}
}

func (c *Config) checkHTTPCallers(p *problems) {
	seen := make(credentials)
	certificates := false
	for _, name := range slices.Sorted(maps.Keys(c.HTTP.Callers)) {
		key := "http.callers." + name
		if !gate.ValidName(name) {
			p.add(key, "%.80q is not a name: 1 to 64 letters, digits, '.', '_' and '-', the first a letter or digit", name)
		}
		caller := c.HTTP.Callers[name]
		seen.check(p, key, name, caller)
		certificates = certificates || len(caller.Certificates) > 0
	}
	if certificates && len(c.HTTP.TLS.CA) == 0 {
		p.add("http.tls.ca", "is empty, so no client certificate is asked for; name the authorities of http.callers.<name>.certificates")
	}
}

// credentials are the names of callers, by the digest of a token or the identity of a certificate.
type credentials map[string]string

// check checks a caller under a key.
func (seen credentials) check(p *problems, key, name string, caller HTTPCaller) {
	if len(caller.Tokens)+len(caller.Certificates) == 0 {
		p.add(key, "has neither tokens nor certificates, so nobody is this caller; list the SHA-256 of a token, as sha256sum prints it, or the identity of a certificate")
	}
	claim := func(at, credential string) {
		if other, taken := seen[credential]; taken {
			p.add(at, "is that of caller %.80q too", other)
		}
		seen[credential] = name
	}
	for i, text := range caller.Tokens {
		at := fmt.Sprintf("%s.tokens[%d]", key, i)
		sum, _, err := gate.ParseToken(text)
		if err != nil {
			p.add(at, "has %d characters, want the 64 hexadecimal digits of a SHA-256, and perhaps \" until 2026-12-31T23:59:59Z\": not the token itself", len(text))
			continue
		}
		claim(at, "token "+string(sum[:]))
	}
	for i, identity := range caller.Certificates {
		at := fmt.Sprintf("%s.certificates[%d]", key, i)
		if !canonical(identity) {
			p.add(at, "%.200q is not what a certificate says: its one URI name, or its one DNS name, such as spiffe://example.org/ide; scheme and host in lower case", identity)
		}
		claim(at, identity)
	}
}

// canonical reports whether a certificate can have an identity in this form.
func canonical(identity string) bool {
	cert := &x509.Certificate{DNSNames: []string{identity}}
	if strings.Contains(identity, ":") {
		u, err := url.Parse(identity)
		if err != nil {
			return false
		}
		cert.URIs = []*url.URL{u}
	}
	said, err := transport.Identity(cert)
	return err == nil && said == identity
}

func (c *Config) checkHTTPA2A(p *problems) {
	h := &c.HTTP
	if h.URL != "" {
		u, err := url.Parse(h.URL)
		if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || u.Scheme+"://"+u.Host != h.URL {
			p.add("http.url", "%.200q is not a URL without a path, such as https://gateway.example.org", h.URL)
		}
	}
	for i, name := range h.A2A.Parameters {
		if err := a2afront.CheckParam(name); err != nil {
			p.add(fmt.Sprintf("http.a2a.parameters[%d]", i), "%s", strings.TrimPrefix(err.Error(), "a2afront: service parameter "))
		}
	}
}

func (c *Config) checkHTTPAddress(p *problems) {
	h := &c.HTTP
	if h.Address == HTTPOff {
		return
	}
	host, err := checkHostPort(h.Address, "127.0.0.1:7790, or off")
	if err != nil {
		p.add("http.address", "%v", err)
		return
	}
	if len(h.Callers) == 0 && h.Anonymous == "" {
		p.add("http.callers", "is empty and http.anonymous not set, so nobody could call; set one of them")
	}
	if Loopback(host) {
		return
	}
	if h.TLS.Cert == "" {
		p.add("http.address", "%s can be reached from other machines, and tokens would cross the network in plain text; set http.tls, or a loopback address", h.Address)
	}
	if h.Anonymous != "" {
		p.add("http.anonymous", "lets everybody in who can reach %s; use http.callers there", h.Address)
	}
	if len(h.Hosts) == 0 {
		p.add("http.hosts", "is empty, so nobody could call %s by its name; list the names by which it is reached", h.Address)
	}
}
