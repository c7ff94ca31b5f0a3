package command

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon/certinfo"
	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/claims"
	"github.com/slimwire/swp/daemon/config"
)

// neighbour is a partner that --partner names.
type neighbour struct {
	name   string // of the partner here
	bundle *certinfo.Bundle
	file   string // configuration of the partner, if it is on this machine
	conf   *config.Config

	warnings []string
}

// findPartners reads what --partner names and holds it against what is to be made.
func (s *setup) findPartners(n *config.New) ([]*neighbour, error) {
	var list []*neighbour
	for _, arg := range s.partners {
		p, err := readNeighbour(arg)
		if err == nil {
			err = p.besides(n, s.dir, list)
		}
		if err == nil && slices.ContainsFunc(list, func(other *neighbour) bool { return other.name == p.name }) {
			err = fmt.Errorf("another partner is named %s; name this one with NAME=", p.name)
		}
		if err != nil {
			return nil, fmt.Errorf("--partner %s: %w", arg, err)
		}
		list = append(list, p)
	}
	return list, nil
}

func readNeighbour(arg string) (*neighbour, error) {
	name, source, named := strings.Cut(arg, "=")
	if !named {
		source = arg
	}
	p := &neighbour{}
	info, err := os.Stat(source)
	switch {
	case err != nil:
		return nil, cli.Unreadable(err)
	case info.IsDir():
		p.file = filepath.Join(source, "swpd.yaml")
		if p.conf, _, err = thePartners(true).Load(p.file, nil, nil); err != nil {
			return nil, err
		}
		p.bundle, err = check.Bundle(p.conf, time.Now())
	default:
		var text []byte
		if text, err = cli.ReadFile(source); err == nil {
			p.bundle, err = certinfo.DecodeBundle(text)
		}
	}
	if err != nil {
		return nil, err
	}
	if p.name = name; !named {
		p.name = nameOf(p.bundle.Identity)
	}
	return p, nil
}

// nameOf is what a partner is called where nobody says another name: the first label of
// its trust domain.
func nameOf(identity string) string {
	_, rest, _ := strings.Cut(identity, "://")
	domain, _, _ := strings.Cut(rest, "/")
	label, _, _ := strings.Cut(domain, ".")
	return label
}

// besides refuses what two endpoints on a machine cannot share.
func (p *neighbour) besides(n *config.New, dir string, others []*neighbour) error {
	unknown := unreachable(n)
	switch {
	case unknown != nil && len(p.bundle.Addresses) == 0:
		return fmt.Errorf("neither can dial the other: it has no address, and --listen %w", unknown)
	case unknown != nil && slices.ContainsFunc(n.Listen, func(a config.Address) bool { return a.Port == 0 }):
		return fmt.Errorf("--listen %w; name a port", unknown)
	}
	if p.bundle.Identity == n.Identity {
		return fmt.Errorf("it has the identity %s, too; choose another with --name, such as spiffe://beta.example/swpd", n.Identity)
	}
	if err := p.claims(n, dir, others); err != nil {
		return fmt.Errorf("%w; or choose another --name", err)
	}
	if p.conf == nil {
		for _, a := range n.Listen {
			if a.Port != 0 && slices.Contains(p.bundle.Addresses, a.Addr) {
				return fmt.Errorf("it has the address %s, which is that of --listen, too; choose another port, such as --listen 127.0.0.1:%d", a, a.Port+100)
			}
		}
		return nil
	}
	for _, a := range n.Listen {
		for _, l := range p.conf.Listeners {
			if a.Port != 0 && a.Addr == l.Address.Addr {
				return fmt.Errorf("it listens on %s, too; choose another port, such as --listen 127.0.0.1:%d", a, a.Port+100)
			}
		}
	}
	if n.Admin == p.conf.Admin.Address && n.Admin != config.AdminOff && !strings.HasSuffix(n.Admin, ":0") {
		return fmt.Errorf("its admin listener is on %s, too; choose another with --admin", n.Admin)
	}
	return nil
}

// claims refuses an identity that is claimed at the other end. The authorities of the new endpoint are
// not made yet: they are others than all that there are.
func (p *neighbour) claims(n *config.New, dir string, others []*neighbour) error {
	stored := ownership{conf: &config.Config{Data: cmp.Or(n.Data, filepath.Join(dir, "data"))}} // of an endpoint that was there before
	here := claims.Registry{Self: n.Identity, Owns: stored.owns}
	for _, other := range others {
		here.Partners = append(here.Partners, claims.Partner{Name: other.name, Identity: other.bundle.Identity, Authorities: other.bundle.Authorities})
	}
	if err := here.Refuse(&claims.Partner{Name: p.name, Identity: p.bundle.Identity, Authorities: p.bundle.Authorities}); err != nil || p.conf == nil {
		p.warnings = stored.unknown
		return err
	}
	there, err := check.Claims(p.conf, time.Now())
	if err != nil {
		return err
	}
	if one, taken := p.conf.Partners[nameOf(n.Identity)]; taken {
		return fmt.Errorf("%s: there is a partner %s, which is %s", p.file, nameOf(n.Identity), one.Identity)
	}
	theirs := ownership{conf: p.conf, file: p.file}
	there.Owns = theirs.owns
	defer func() { p.warnings = slices.Concat(stored.unknown, theirs.unknown) }()
	if err := there.Refuse(&claims.Partner{Name: nameOf(n.Identity), Identity: n.Identity}); err != nil {
		return fmt.Errorf("%s: %w", p.file, err)
	}
	if keys := check.Named(p.conf, n.Identity); len(keys) > 0 {
		return fmt.Errorf("%s: %s, which is to be the identity of this endpoint, is named already in %s", p.file, n.Identity, strings.Join(keys, ", "))
	}
	return nil
}

// unreachable returns why partners cannot dial any of the listeners.
func unreachable(n *config.New) (why error) {
	for _, a := range n.Listen {
		err := certinfo.Dialable(a.Addr)
		if err == nil {
			return nil
		}
		why = cmp.Or(why, err)
	}
	return why
}

// addPartner adds the new endpoint to the configuration of a partner on this machine.
func (p *neighbour) addPartner(s *setup) error {
	if p.file == "" {
		return nil
	}
	c, err := config.Load(s.file(), nil)
	if err != nil {
		return err
	}
	ours, err := check.Bundle(c, time.Now())
	if err != nil {
		return err
	}
	text, err := os.ReadFile(p.file)
	if err != nil {
		return err
	}
	if text, err = join(p.file, text, nameOf(s.name), ours); err != nil {
		return err
	}
	return config.Rewrite(p.file, text)
}

// join writes the authorities of a partner beside a configuration and returns the text
// of the configuration with the partner in it.
func join(file string, text []byte, name string, b *certinfo.Bundle) ([]byte, error) {
	if strings.ContainsAny(name, `/\`) || name == "" {
		return nil, errors.New("the name of a partner has no slash and is not empty; choose one with NAME=")
	}
	trust := filepath.Join("partners", name+".pem")
	at := filepath.Join(filepath.Dir(file), trust)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	_, err = out.Write(b.Encode())
	if err := errors.Join(err, out.Close()); err != nil {
		return nil, err
	}
	j := config.Joined{Name: name, Identity: b.Identity, Trust: trust}
	for _, a := range b.Addresses {
		j.Addresses = append(j.Addresses, config.Address{Addr: a})
	}
	return config.Join(file, text, j)
}
