package check

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/daemon/certinfo"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/identity"
	"github.com/slimwire/swp/transport"
)

// Own returns the identity of the endpoint of a configuration, whether or not its certificate is valid now, and the files
// with its trust anchors.
func Own(c *config.Config) (string, []string, error) {
	if c.Identity.SPIFFE != "" {
		return "", nil, errors.New("the certificate comes from the Workload API, whose authorities change; name the identity with --identity and the authority of that time with --ca")
	}
	name, err := identity.NameOf(c)
	return name, identity.FilesOf(c).CA, err
}

// Certificates describes the certificates in a configuration: the identity, the trust
// anchors, and the trust anchors of the partners. Of a file that cannot be used it says why.
func Certificates(c *config.Config, now time.Time) ([]certinfo.Info, error) {
	if c.Identity.SPIFFE != "" {
		cr, err := identity.Read(c, func() time.Time { return now })
		if err != nil {
			return nil, err
		}
		return append([]certinfo.Info{cr.Certificate()}, cr.Anchors()...), nil
	}
	own := identity.FilesOf(c)
	var all []certinfo.Info
	first := certinfo.Files{Cert: own.Cert, Key: own.Key}
	if len(own.CA) == 1 {
		first.CA = own.CA[0]
	}
	files := []certinfo.Files{first}
	for _, ca := range own.CA {
		files = append(files, certinfo.Files{Cert: ca})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Partners)) {
		for _, ca := range c.Partners[name].Trust {
			files = append(files, certinfo.Files{Cert: ca})
		}
	}
	for _, f := range files {
		infos, err := certinfo.Read(f, now)
		if err != nil {
			infos = []certinfo.Info{{File: f.Cert, Problem: unusable(f.Cert, err)}}
		}
		all = append(all, infos...)
	}
	return all, nil
}

// unusable says why a file with a certificate, or one that is compared with it, cannot be used.
func unusable(file string, err error) string {
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		err = config.Unreadable(failed.Path, err)
	}
	return strings.TrimLeft(strings.TrimPrefix(err.Error(), file), ": ")
}

// Bundle returns the data that a partner needs about the endpoint of a configuration: its
// identity, its addresses, and the trust anchors that have issued its certificate.
func Bundle(c *config.Config, now time.Time) (*certinfo.Bundle, error) {
	cr, err := identity.ReadOwn(c, func() time.Time { return now })
	if err != nil {
		return nil, err
	}
	b := &certinfo.Bundle{Identity: cr.Identity(), Addresses: dialable(c)}
	shown := cr.Current().Certificate.Certificate
	chain := make([]*x509.Certificate, 0, len(shown))
	for _, der := range shown {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("identity.cert: %w", err)
		}
		chain = append(chain, cert)
	}
	for _, anchor := range cr.Authorities() {
		if certinfo.Vouches([]*x509.Certificate{anchor}, chain, now) == nil {
			b.Authorities = append(b.Authorities, anchor)
		}
	}
	if len(b.Authorities) == 0 {
		return nil, errors.New("no authority in trust.ca vouches for identity.cert; give the partner the one that issued it")
	}
	return b, nil
}

// dialable returns the addresses of listeners that other machines can dial.
func dialable(c *config.Config) []transport.Addr {
	var list []transport.Addr
	for _, l := range c.Listeners {
		if a := l.Address.Addr; certinfo.Dialable(a) == nil {
			list = append(list, a)
		}
	}
	return list
}
