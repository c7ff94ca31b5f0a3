package daemon

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slimwire/swp/daemon/certinfo"
	"github.com/slimwire/swp/profiles"
)

// ending says whether a certificate ends so soon that somebody should know, and whether
// so soon that what rests on it should not be relied upon.
func ending(notBefore, notAfter, now time.Time) (soon, urgent bool) {
	left, life := notAfter.Sub(now), notAfter.Sub(notBefore)
	urgent = left <= 0 || left < min(24*time.Hour, life/10)
	return urgent || left < min(30*24*time.Hour, life/3), urgent
}

// end says when a certificate ends or has ended.
func end(notAfter, now time.Time) string {
	verb := "ends"
	if !now.Before(notAfter) {
		verb = "ended"
	}
	return verb + " at " + notAfter.UTC().Format(time.RFC3339)
}

// expiry says whether the certificate ends so soon that peers should be sent
// elsewhere, or that somebody should know.
func (c *credentials) expiry() (reason string, urgent bool) {
	l, now := c.current.Load(), c.now()
	leaf := l.Certificate.Leaf
	soon, urgent := ending(leaf.NotBefore, leaf.NotAfter, now)
	if !soon {
		return "", false
	}
	return "certificate " + l.file + " " + end(leaf.NotAfter, now), urgent
}

// anchor is a trust anchor and where it was read from.
type anchor struct {
	partner string // whose it is alone; empty: of trust.ca or http.tls.ca
	file    string
	cert    *x509.Certificate
}

// anchorWarnings says which trust anchors end soon.
func (c *credentials) anchorWarnings() []string {
	return anchorWarnings(c.current.Load().list(), "trust.ca", c.now())
}

// anchorWarnings says which of some trust anchors end soon. Those of no partner are under
// a key of the configuration.
func anchorWarnings(anchors []anchor, key string, now time.Time) (list []string) {
	for _, a := range anchors {
		soon, _ := ending(a.cert.NotBefore, a.cert.NotAfter, now)
		if !soon {
			continue
		}
		whose, todo := key, "put the next one beside it"
		if a.partner != "" {
			whose, todo = "partner "+a.partner, "ask the partner for the next one"
		}
		if now.After(a.cert.NotAfter) {
			todo = "take it out, and " + todo + " if it has no successor here"
		}
		list = append(list, fmt.Sprintf("%s: the authority %q in %s %s; %s", whose, a.cert.Subject, a.file, end(a.cert.NotAfter, now), todo))
	}
	return list
}

// look implements part.
func (c *credentials) look(h *Health) {
	if reason, urgent := c.expiry(); urgent {
		h.Reasons = append(h.Reasons, reason)
	} else if reason != "" {
		h.Warnings = append(h.Warnings, reason)
	}
	h.Warnings = append(h.Warnings, c.anchorWarnings()...)
}

// ends reports whether the certificate that a peer has shown ends soon.
func (c *credentials) ends(p *profiles.Peer) bool {
	soon, _ := ending(p.NotBefore, p.NotAfter, c.now())
	return soon
}

// expiries says which partners have shown a certificate that ends soon.
func (p *partners) expiries() []string {
	var list []string
	now := p.daemon.credentials.now()
	for _, s := range p.status() {
		if s.Seen != nil && p.daemon.credentials.ends(s.Seen) {
			list = append(list, fmt.Sprintf("partner %s: the certificate that it showed last %s; the partner has to renew it", s.Name, end(s.NotAfter, now)))
		}
	}
	return list
}

// inForce describes the certificates in use, and those that partners showed last.
func (d *daemon) inForce() []certinfo.Info {
	l, now := d.credentials.current.Load(), d.credentials.now()
	own := certinfo.Of(l.Certificate.Leaf, now)
	own.File = l.file
	list := []certinfo.Info{own}
	anchors := l.list()
	if secure := d.fronts.secured(); secure != nil {
		shown := certinfo.Of(secure.leaf(), now)
		shown.File = secure.file
		list, anchors = append(list, shown), append(anchors, secure.vouching...)
	}
	for _, a := range anchors {
		i := certinfo.Of(a.cert, now)
		i.File = a.file
		list = append(list, i)
	}
	for _, s := range d.partners.status() {
		if s.Seen != nil {
			list = append(list, certinfo.Info{
				File: "shown by partner " + s.Name, Identity: s.Seen.Identity, Subject: s.Seen.Subject, Issuer: s.Seen.Issuer,
				NotBefore: s.Seen.NotBefore, NotAfter: s.Seen.NotAfter, Fingerprint: s.Seen.Fingerprint,
			})
		}
	}
	return list
}

var (
	httpExpiry      = prometheus.NewDesc("swpd_http_certificate_expiry_timestamp_seconds", "When the certificate of http.tls ends.", nil, nil)
	ownExpiry       = prometheus.NewDesc("swpd_certificate_expiry_timestamp_seconds", "When the certificate of this endpoint ends.", nil, nil)
	partnerExpiry   = prometheus.NewDesc("swpd_partner_certificate_expiry_timestamp_seconds", "When the certificate ends that the partner showed last.", []string{"partner"}, nil)
	authorityExpiry = prometheus.NewDesc("swpd_partner_authority_expiry_timestamp_seconds", "When the first authority in the trust of the partner ends.", []string{"partner"}, nil)
)

// expiryGauges is a prometheus.Collector. Labels are names from the configuration.
type expiryGauges struct{ *daemon }

// Describe implements prometheus.Collector.
func (e expiryGauges) Describe(ch chan<- *prometheus.Desc) {
	ch <- ownExpiry
	ch <- httpExpiry
	ch <- partnerExpiry
	ch <- authorityExpiry
}

// Collect implements prometheus.Collector.
func (e expiryGauges) Collect(ch chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, t time.Time, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(t.Unix()), labels...)
	}
	l := e.credentials.current.Load()
	gauge(ownExpiry, l.Certificate.Leaf.NotAfter)
	if secure := e.fronts.secured(); secure != nil {
		gauge(httpExpiry, secure.leaf().NotAfter)
	}
	for _, s := range e.partners.status() {
		if s.Seen != nil {
			gauge(partnerExpiry, s.Seen.NotAfter, s.Name)
		}
	}
	first := make(map[string]time.Time)
	for _, a := range l.list() {
		if t, ok := first[a.partner]; a.partner != "" && (!ok || a.cert.NotAfter.Before(t)) {
			first[a.partner] = a.cert.NotAfter
		}
	}
	for name, t := range first {
		gauge(authorityExpiry, t, name)
	}
}
