package certinfo

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/slimwire/swp/transport"
)

// Bundle is the description of an endpoint for a partner.
type Bundle struct {
	Identity    string
	Addresses   []transport.Addr // to dial; empty if the endpoint itself dials
	Authorities []*x509.Certificate
}

// Encode returns the identity and the addresses as text, and then the authorities in
// PEM form. Readers of PEM skip the text.
func (b *Bundle) Encode() []byte {
	var text bytes.Buffer
	_, _ = fmt.Fprintf(&text, "identity: %s\n", b.Identity)
	for _, a := range b.Addresses {
		_, _ = fmt.Fprintf(&text, "address: %s\n", a)
	}
	for _, cert := range b.Authorities {
		_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}) // a Buffer takes everything
	}
	return text.Bytes()
}

// DecodeBundle reads the output of Encode.
func DecodeBundle(text []byte) (*Bundle, error) {
	authorities, err := transport.ParseAuthorities(text)
	if err != nil {
		return nil, err
	}
	b := &Bundle{Authorities: authorities}
	head, _, _ := strings.Cut(string(text), "-----BEGIN")
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "identity":
			b.Identity = value
		case "address":
			if err := b.add(value); err != nil {
				return nil, err
			}
		}
	}
	if b.Identity == "" {
		return nil, errors.New(`names no identity; want a file that "swpd cert bundle" has printed`)
	}
	return b, nil
}

// SetAddresses replaces the addresses.
func (b *Bundle) SetAddresses(list []string) error {
	b.Addresses = nil
	for _, a := range list {
		if err := b.add(a); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bundle) add(address string) error {
	a, err := transport.ParseAddr(address)
	if err == nil {
		err = Dialable(a)
	}
	if err != nil {
		return err
	}
	b.Addresses = append(b.Addresses, a)
	return nil
}

// Dialable returns why a partner cannot dial an address, nil if it can.
func Dialable(a transport.Addr) error {
	ip, err := netip.ParseAddr(a.Host)
	switch {
	case a.Transport == "tcp":
		return fmt.Errorf("%s is plaintext, which does not authenticate the endpoint; want swp+tls or swp+quic", a)
	case a.Port == 0:
		return fmt.Errorf("%s has no port that a partner can dial: the system chooses one at each start", a)
	case a.Host == "" || err == nil && ip.IsUnspecified():
		return fmt.Errorf("%s names no host that a partner can dial", a)
	}
	return nil
}
