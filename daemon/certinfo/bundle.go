package certinfo

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/slimwire/swp/transport"
)

// Bundle is what a partner needs to know of an endpoint.
type Bundle struct {
	Identity    string
	Addresses   []transport.Addr // where it is dialled; none: it dials
	Authorities []*x509.Certificate
}

// Encode returns the authorities in PEM form, below the rest as text, which readers of
// PEM skip.
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

// DecodeBundle reads what Encode has written.
func DecodeBundle(text []byte) (*Bundle, error) {
	authorities, err := Parse(text)
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
		return nil, errors.New(`says no identity; want a file that "swpd cert bundle" has printed`)
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
	switch {
	case err != nil:
		return err
	case a.Transport == "tcp":
		return fmt.Errorf("%s is plaintext, by which nobody knows who answers; want swp+tls or swp+quic", a)
	case a.Host == "" || a.Port == 0:
		return fmt.Errorf("%s names no host or no port to dial", a)
	}
	b.Addresses = append(b.Addresses, a)
	return nil
}
