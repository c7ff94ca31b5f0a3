package transport_test

import (
	"crypto/x509"
	"net/url"
	"strings"
	"testing"

	"github.com/slimwire/swp/transport"
)

func TestIdentityIsOneURIElseOneDNSName(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, c := range []struct {
		name string
		uris []string
		dns  []string
		want string // empty means refused
	}{
		{"one URI", []string{"spiffe://example.org/agent"}, nil, "spiffe://example.org/agent"},
		{"one URI, DNS names ignored", []string{"spiffe://example.org/agent"}, []string{"a.example", "b.example"}, "spiffe://example.org/agent"},
		{"URI in another case", []string{"SPIFFE://Example.ORG/Agent"}, nil, "spiffe://example.org/Agent"},
		{"URN", []string{"urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8"}, nil, "urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8"},
		{"one DNS name", nil, []string{"Agent.Example.ORG"}, "agent.example.org"},
		{"DNS name of 253 octets", nil, []string{long + "." + long + "." + long + "." + long[:61]}, long + "." + long + "." + long + "." + long[:61]},
		{"URI of 2048 octets", []string{"spiffe://h/" + strings.Repeat("p", 2037)}, nil, "spiffe://h/" + strings.Repeat("p", 2037)},
		{"did:web", []string{"did:web:example.org:user:alice"}, nil, "did:web:example.org:user:alice"},
		{"did:web with a port", []string{"did:web:localhost%3A8443"}, nil, "did:web:localhost%3A8443"},
		{"did:web with a port and a path", []string{"did:web:localhost%3a8443:user:alice"}, nil, "did:web:localhost%3A8443:user:alice"},

		{"did:web with two ports", []string{"did:web:localhost%3A1%3A2"}, nil, ""},
		{"did:web with a port that is none", []string{"did:web:localhost%3Ax"}, nil, ""},
		{"did:web with an empty port", []string{"did:web:localhost%3A"}, nil, ""},
		{"did:web with a port above all", []string{"did:web:localhost%3A65536"}, nil, ""},
		{"did:web with a port written otherwise", []string{"did:web:localhost%3A0443"}, nil, ""},
		{"did:web with a port and no host", []string{"did:web:%3A443"}, nil, ""},
		{"did:web with an encoded path", []string{"did:web:example.org:a%3A1"}, nil, ""},
		{"did:web with a port and an encoded path", []string{"did:web:example.org%3A1:a%2Fb"}, nil, ""},
		{"did of another method with a port", []string{"did:key:localhost%3A8443"}, nil, ""},
		{"nothing", nil, nil, ""},
		{"two URIs", []string{"spiffe://h/a", "spiffe://h/b"}, nil, ""},
		{"two URIs and one DNS name", []string{"spiffe://h/a", "spiffe://h/b"}, []string{"a.example"}, ""},
		{"the same URI twice", []string{"spiffe://h/a", "spiffe://h/a"}, nil, ""},
		{"two DNS names", nil, []string{"a.example", "b.example"}, ""},
		{"wildcard", nil, []string{"*.example.org"}, ""},
		{"wildcard within", nil, []string{"a*.example.org"}, ""},
		{"NUL in DNS name", nil, []string{"admin\x00.example.org"}, ""},
		{"newline in DNS name", nil, []string{"admin\n.example.org"}, ""},
		{"space in DNS name", nil, []string{"admin example"}, ""},
		{"empty DNS name", nil, []string{""}, ""},
		{"trailing dot", nil, []string{"a.example."}, ""},
		{"address as DNS name", nil, []string{"127.0.0.1"}, ""},
		{"label of 64 octets", nil, []string{long + "a.example"}, ""},
		{"DNS name of 254 octets", nil, []string{long + "." + long + "." + long + "." + long[:62]}, ""},
		{"identity of plaintext peers", nil, []string{"loopback"}, ""},
		{"identity of plaintext peers, other case", nil, []string{"Loopback"}, ""},
		{"URI of 2049 octets", []string{"spiffe://h/" + strings.Repeat("p", 2038)}, nil, ""},
		{"URI without scheme", []string{"//h/a"}, nil, ""},
		{"URI without host", []string{"spiffe:///a"}, nil, ""},
		{"URI with user", []string{"spiffe://admin@h/a"}, nil, ""},
		{"URI with query", []string{"spiffe://h/a?x=y"}, nil, ""},
		{"URI with empty query", []string{"spiffe://h/a?"}, nil, ""},
		{"URI with fragment", []string{"spiffe://h/a#x"}, nil, ""},
		{"URI with percent-encoding", []string{"spiffe://h/%61"}, nil, ""},
		{"URI with encoded newline", []string{"spiffe://h/a%0Ab"}, nil, ""},
		{"URI with dot segments", []string{"spiffe://h/guest/../admin"}, nil, ""},
		{"URI with wildcard host", []string{"spiffe://*/a"}, nil, ""},
		{"a bad URI does not fall back to DNS", []string{"spiffe:///a"}, []string{"a.example"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cert := &x509.Certificate{DNSNames: c.dns}
			for _, s := range c.uris {
				u, err := url.Parse(s)
				if err != nil {
					t.Fatal(err)
				}
				cert.URIs = append(cert.URIs, u)
			}
			cert.Subject.CommonName = "admin"
			cert.EmailAddresses = []string{"admin@example.org"}
			got, err := transport.Identity(cert)
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("Identity: %q, %v; want %q", got, err, c.want)
			}
		})
	}
}
