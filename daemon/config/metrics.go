package config

import "github.com/slimwire/swp/internal/bridge/gate"

// Metrics configures the listener for monitoring from other machines.
type Metrics struct {
	Address      string   `yaml:"address"`      // host:port, or "off"
	Tokens       []string `yaml:"tokens"`       // as HTTPCaller
	Certificates []string `yaml:"certificates"` // as HTTPCaller
	TLS          HTTPTLS  `yaml:"tls"`          // required
}

// Caller returns the callers that are let in, as one.
func (m *Metrics) Caller() HTTPCaller { return HTTPCaller{m.Tokens, m.Certificates} }

func (c *Config) checkMetrics(p *problems) {
	m := &c.Metrics
	if m.Address == AdminOff {
		for key, set := range map[string]bool{
			"tokens": len(m.Tokens) > 0, "certificates": len(m.Certificates) > 0, "tls": len(m.TLS.CA)+len(m.TLS.CRL) > 0 || m.TLS.Cert+m.TLS.Key != "",
		} {
			if set {
				p.add("metrics."+key, "is set while metrics.address is off; set the address, or remove it")
			}
		}
		return
	}
	if _, err := checkHostPort(m.Address, "0.0.0.0:7782, or off"); err != nil {
		p.add("metrics.address", "%v", err)
	}
	make(credentials).check(p, "metrics", "metrics", m.Caller())
	if m.TLS.Cert == "" {
		p.add("metrics.tls.cert", "missing: metrics are served over TLS only; the files of identity.cert and identity.key will do. Without TLS they are at admin")
	}
	if len(m.Certificates) > 0 && len(m.TLS.CA) == 0 {
		p.add("metrics.tls.ca", "is empty, so no client certificate is asked for; name the authorities of metrics.certificates")
	}
	m.TLS.check(p, "metrics.tls")
}

// Gate returns the options of a gate for the callers.
func (m *Metrics) Gate() gate.Options {
	return gate.Options{
		Callers:      map[string][]string{"metrics": m.Tokens},
		Certificates: map[string][]string{"metrics": m.Certificates},
		AnyHost:      true,
		Calls:        maxScrapes,
	}
}

// maxScrapes is how many requests may be open.
const maxScrapes = 16
