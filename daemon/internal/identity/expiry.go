package identity

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slimwire/swp/daemon/certinfo"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/transport"
)

// Ending reports whether a certificate expires soon, which is worth a warning, and whether
// it expires so soon that the endpoint should not be used.
func Ending(notBefore, notAfter, now time.Time) (soon, urgent bool) {
	left, life := notAfter.Sub(now), notAfter.Sub(notBefore)
	urgent = left <= 0 || left < min(24*time.Hour, life/10)
	return urgent || left < min(30*24*time.Hour, life/3), urgent
}

// End says when a certificate expires or has expired.
func End(notAfter, now time.Time) string {
	verb := "ends"
	if !now.Before(notAfter) {
		verb = "ended"
	}
	return verb + " at " + notAfter.UTC().Format(time.RFC3339)
}

// expiry returns the reason if the certificate expires soon, and whether that makes the
// endpoint not ready.
func (c *Credentials) expiry() (reason string, urgent bool) {
	l, now := c.current.Load(), c.now()
	leaf := l.Certificate.Leaf
	soon, urgent := Ending(leaf.NotBefore, leaf.NotAfter, now)
	if !soon {
		return "", false
	}
	return "certificate " + l.file + " " + End(leaf.NotAfter, now), urgent
}

// Anchor is a trust anchor and its source.
type Anchor struct {
	partner string // the only partner it is for; empty: of trust.ca or http.tls.ca
	file    string // or the address that it comes from
	cert    *x509.Certificate
	rolling bool // its source replaces it in time, so its end is worth no warning
}

// anchorWarnings returns warnings for trust anchors that expire soon.
func (c *Credentials) anchorWarnings() []string {
	return AnchorWarnings(c.current.Load().list(), "trust.ca", c.now())
}

// listWarnings returns warnings for revocation lists that have expired.
func (c *Credentials) listWarnings() []string {
	l := c.current.Load()
	return slices.Concat(l.lists, l.partners.lists).Warnings(c.now())
}

// AnchorWarnings returns warnings for trust anchors that expire soon. Anchors of no partner
// are named by a key of the configuration.
func AnchorWarnings(anchors []Anchor, key string, now time.Time) (list []string) {
	for _, a := range anchors {
		soon, _ := Ending(a.cert.NotBefore, a.cert.NotAfter, now)
		if !soon || a.rolling {
			continue
		}
		whose, todo := key, "put the next one beside it"
		if a.partner != "" {
			whose, todo = "partner "+a.partner, "ask the partner for the next one"
		}
		if now.After(a.cert.NotAfter) {
			todo = "take it out, and " + todo + " if it has no successor here"
		}
		list = append(list, fmt.Sprintf("%s: the authority %q in %s %s; %s", whose, a.cert.Subject, a.file, End(a.cert.NotAfter, now), todo))
	}
	return list
}

// Warnings returns all warnings, urgent or not.
func (c *Credentials) Warnings() (list []string) {
	if reason, _ := c.expiry(); reason != "" {
		list = append(list, reason)
	}
	return slices.Concat(list, c.others())
}

// Look implements part.Part.
func (c *Credentials) Look(h *part.Health) {
	if reason, urgent := c.expiry(); urgent {
		h.Reasons = append(h.Reasons, reason)
	} else if reason != "" {
		h.Warn(reason)
	}
	h.Warn(c.others()...)
}

// usageFaults returns why all peers refuse the certificate of this endpoint if this endpoint dials, and
// if peers dial it; empty if they do not.
func (l *loaded) usageFaults() (dialling, accepting string) {
	chain := []*x509.Certificate{l.Certificate.Leaf}
	for _, der := range l.Certificate.Certificate[1:] {
		if cert, err := x509.ParseCertificate(der); err == nil {
			chain = append(chain, cert)
		}
	}
	const text = "the certificate of this endpoint, %s, lacks the extended key usage %s, so every peer refuses it %s; get one with serverAuth and clientAuth%s"
	if !transport.Usable(chain, x509.ExtKeyUsageClientAuth) {
		dialling = fmt.Sprintf(text, l.file, "clientAuth", "where this endpoint dials", " from an authority of your own, because public authorities issue none, or have the partners dial this endpoint")
	}
	if !transport.Usable(chain, x509.ExtKeyUsageServerAuth) {
		accepting = fmt.Sprintf(text, l.file, "serverAuth", "when it dials this endpoint", "")
	}
	return dialling, accepting
}

// DialFault returns why every peer that this endpoint dials refuses its certificate; empty if none is
// known.
func (c *Credentials) DialFault() string {
	fault, _ := c.current.Load().usageFaults()
	return fault
}

// others returns the warnings that are never urgent.
func (c *Credentials) others() (list []string) {
	dialling, accepting := c.current.Load().usageFaults()
	for _, fault := range []string{dialling, accepting} {
		if fault != "" {
			list = append(list, fault)
		}
	}
	if away := c.apiWarning(); away != "" {
		list = append(list, away)
	}
	return slices.Concat(list, c.bundleWarnings(), c.anchorWarnings(), c.listWarnings())
}

// Ends reports whether the certificate of a peer expires soon.
func (c *Credentials) Ends(p *profiles.Peer) bool {
	soon, _ := Ending(p.NotBefore, p.NotAfter, c.now())
	return soon
}

// Info describes a certificate.
type Info = certinfo.Info

// Certificate describes the certificate of this endpoint.
func (c *Credentials) Certificate() Info {
	l := c.current.Load()
	i := certinfo.Of(l.Certificate.Leaf, c.now())
	i.File = l.file
	return i
}

// Anchors describes the trust anchors in force.
func (c *Credentials) Anchors() []Info { return InfoOf(c.current.Load().list(), c.now()) }

// InfoOf describes trust anchors.
func InfoOf(anchors []Anchor, now time.Time) (list []Info) {
	for _, a := range anchors {
		i := certinfo.Of(a.cert, now)
		i.File = a.file
		list = append(list, i)
	}
	return list
}

var (
	ownExpiry       = prometheus.NewDesc("swpd_certificate_expiry_timestamp_seconds", "When the certificate of this endpoint ends.", nil, nil)
	apiUp           = prometheus.NewDesc("swpd_workload_api_up", "1 while the SPIFFE Workload API gives the certificate of this endpoint.", nil, nil)
	bundleFetched   = prometheus.NewDesc("swpd_partner_bundle_fetched_timestamp_seconds", "When the trust bundle of the partner was fetched last.", []string{"partner"}, nil)
	authorityExpiry = prometheus.NewDesc("swpd_partner_authority_expiry_timestamp_seconds", "When the first authority in the trust of the partner ends.", []string{"partner"}, nil)
)

// Collectors implements part.Part.
func (c *Credentials) Collectors() []prometheus.Collector { return []prometheus.Collector{c} }

// Describe implements prometheus.Collector. Labels are names from the configuration.
func (c *Credentials) Describe(ch chan<- *prometheus.Desc) {
	ch <- ownExpiry
	ch <- apiUp
	ch <- bundleFetched
	ch <- authorityExpiry
}

// Collect implements prometheus.Collector.
func (c *Credentials) Collect(ch chan<- prometheus.Metric) {
	l := c.current.Load()
	ch <- Expiry(ownExpiry, l.Certificate.Leaf.NotAfter)
	if c.api != nil {
		up := 1.0
		if _, err := c.api.Fault(); err != nil {
			up = 0
		}
		ch <- prometheus.MustNewConstMetric(apiUp, prometheus.GaugeValue, up)
	}
	for _, e := range c.endpoints.list() {
		if b := e.State().Bundle; b != nil && !e.idle() {
			ch <- Expiry(bundleFetched, b.Fetched, e.name)
		}
	}
	first := make(map[string]time.Time)
	for _, a := range l.list() {
		if t, ok := first[a.partner]; a.partner != "" && !a.rolling && (!ok || a.cert.NotAfter.Before(t)) {
			first[a.partner] = a.cert.NotAfter
		}
	}
	for name, t := range first {
		ch <- Expiry(authorityExpiry, t, name)
	}
}

// Expiry is a metric whose value is a time, such as the end of a certificate.
func Expiry(desc *prometheus.Desc, t time.Time, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(t.Unix()), labels...)
}
