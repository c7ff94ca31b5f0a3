package transport

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// LoopbackIdentity is the identity of every plaintext peer. No certificate can
// carry it.
const LoopbackIdentity = "loopback"

// maxIdentity is the longest identity, in octets (as SPIFFE allows).
const maxIdentity = 2048

// Identity returns the one canonical identity of a certificate: its URI SAN if it has
// exactly one, else its DNS SAN if it has exactly one and no URI. IP addresses and e-mail
// addresses are ignored, as are DNS names beside a URI. The common name and the
// distinguished name are never used. Any other certificate is an error, because its peer
// could be mistaken for another one. An authority has no SPIFFE ID: the leaf of an X509-SVID must
// not be able to sign certificates (X509-SVID, 5.2).
//
// Scheme, host and DNS names are in lower case. An identity has no control or white space
// characters, no wildcard, no query, user, percent-encoding or dot segments, except for the
// colon before the port of a did:web, which is %3A. So equal identities are equal strings,
// and an identity cannot trick the patterns of access rules.
func Identity(cert *x509.Certificate) (string, error) {
	switch {
	case len(cert.URIs) == 1:
		id, err := uriIdentity(cert.URIs[0])
		if err == nil && TrustDomain(id) != "" && (cert.IsCA || cert.KeyUsage&(x509.KeyUsageCertSign|x509.KeyUsageCRLSign) != 0) {
			return "", fmt.Errorf("transport: identity: the certificate of %.64q is that of an authority, or may sign certificates or CRLs, which X509-SVID forbids; use a certificate of its own for each endpoint", id)
		}
		return id, err
	case len(cert.URIs) > 1:
		return "", fmt.Errorf("transport: identity: %d URI names in the certificate, want 1", len(cert.URIs))
	case len(cert.DNSNames) == 1:
		return dnsIdentity(cert.DNSNames[0])
	}
	return "", fmt.Errorf("transport: identity: no URI name and %d DNS names in the certificate, want 1", len(cert.DNSNames))
}

// TrustDomain returns the name of the trust domain of an identity that is a SPIFFE ID, such as
// example.org of spiffe://example.org/swpd. It is empty for other identities.
func TrustDomain(identity string) string {
	rest, ok := strings.CutPrefix(identity, "spiffe://")
	if !ok {
		return ""
	}
	domain, _, _ := strings.Cut(rest, "/")
	return domain
}

func uriIdentity(u *url.URL) (string, error) {
	c := *u
	c.Scheme, c.Host = strings.ToLower(c.Scheme), strings.ToLower(c.Host)
	port := webPort(&c)
	id := c.String()
	fail := func(why string) (string, error) {
		return "", fmt.Errorf("transport: identity: URI %.64q: %s", id, why)
	}
	switch {
	case len(id) > maxIdentity:
		return fail("too long")
	case c.Scheme == "":
		return fail("no scheme")
	case c.Host == "" && c.Opaque == "":
		return fail("no host")
	case c.User != nil || c.RawQuery != "" || c.ForceQuery || c.Fragment != "":
		return fail("user, query or fragment")
	case strings.Count(id, "%") > port:
		return fail("percent-encoding")
	case strings.ContainsFunc(id, unprintable):
		return fail("control or non-ASCII character")
	case strings.ContainsAny(c.Host, "*"):
		return fail("wildcard")
	}
	for segment := range strings.SplitSeq(c.Path, "/") {
		if segment == "." || segment == ".." {
			return fail("dot segment")
		}
	}
	return id, nil
}

// webPort returns 1 if a URI is a did:web whose host has a port, and writes the colon between
// them as %3A. It returns 0 for any other URI.
func webPort(u *url.URL) int {
	method, id, _ := strings.Cut(u.Opaque, ":")
	if u.Scheme != "did" || method != "web" {
		return 0
	}
	site, path, more := strings.Cut(id, ":")
	host, port, _ := strings.Cut(strings.Replace(site, "%3a", "%3A", 1), "%3A")
	if n, err := strconv.ParseUint(port, 10, 16); host == "" || err != nil || port != strconv.FormatUint(n, 10) {
		return 0
	}
	u.Opaque = "web:" + host + "%3A" + port
	if more {
		u.Opaque += ":" + path
	}
	return 1
}

func dnsIdentity(name string) (string, error) {
	id := strings.ToLower(name)
	if err := checkDNS(id); err != nil {
		return "", fmt.Errorf("transport: identity: DNS name %.64q: %w", id, err)
	}
	return id, nil
}

func checkDNS(name string) error {
	if name == LoopbackIdentity {
		return errors.New("reserved for plaintext peers")
	}
	if len(name) > 253 {
		return errors.New("too long")
	}
	if strings.HasPrefix(name, "*") {
		return errors.New("wildcard")
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return errors.New("an address")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return errors.New("malformed label")
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return fmt.Errorf("character %q", c)
			}
		}
	}
	return nil
}

func unprintable(r rune) bool { return r <= ' ' || r >= 0x7f }
