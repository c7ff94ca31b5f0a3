package command

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
	"github.com/slimwire/swp/transport"
)

// setup is what swpd init is asked for.
type setup struct {
	dir, name, admin string
	data, group      string
	hosts            []string
	listen           []string
	partners         []string
	full             bool

	made bool // the directory was not there
}

func newInit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make certificates and a configuration",
		Long: `Make a directory for swpd run: swpd.yaml, and pki/ with an authority, a certificate for
the server and one for swp-client. Nothing is overwritten. The authority is for
development: its key is stored beside the certificates. In production use your own
certificates in swpd.yaml. swpd cert makes further ones.

With --partner the endpoint is configured for another one. The value is a file that the
partner made with swpd cert bundle, or the directory of an endpoint on this machine,
which is then changed as well. Each endpoint gets the authority of the other, and may
use the other's MCP server "shared". The partner is named by the first part of its
trust domain, or by NAME=.`,
		Example: `  swpd init
  swpd init --dir edge --name spiffe://example.org/edge
  swpd init --dir edge --host edge.example.org --listen 0.0.0.0:7777 --full
  swpd init --dir /etc/swpd --data /var/lib/swpd --group swpd
  swpd init --dir acme --name spiffe://acme.example/swpd
  swpd init --dir beta --name spiffe://beta.example/swpd --listen 127.0.0.1:7877 --partner acme`,
	}
	var s setup
	f := cmd.Flags()
	f.StringVar(&s.dir, "dir", ".", "`directory` to make it in")
	f.StringVar(&s.name, "name", devpki.DefaultName, "identity of the server, a `URI` such as spiffe://example.org/edge")
	f.StringArrayVar(&s.hosts, "host", nil, "DNS `name` or IP address that the certificate is valid for too; repeatable")
	f.StringArrayVar(&s.listen, "listen", []string{"127.0.0.1:7777"}, "`address` of listeners: host:port for TLS and QUIC there, or one such as swp+tls://host:port; repeatable")
	f.StringVar(&s.admin, "admin", "", "`address` of the admin listener, such as unix:/run/swpd/admin.sock, or off; default 127.0.0.1 and the third port after that of the first listener")
	f.StringArrayVar(&s.partners, "partner", nil, "`[NAME=]SOURCE` of a partner: a file of swpd cert bundle, or the directory of an endpoint here; repeatable")
	f.StringVar(&s.data, "data", "", "`directory` of the stored state; default data in --dir")
	f.StringVar(&s.group, "group", "", "`name` of a group that may read the configuration and the key of the server: that of the account that runs swpd, if it is another one")
	f.BoolVar(&s.full, "full", false, "write every key into swpd.yaml, with comments")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return s.run(cmd) }
	return cmd
}

func (s *setup) file() string { return filepath.Join(s.dir, "swpd.yaml") }
func (s *setup) pki() string  { return filepath.Join(s.dir, "pki") }

func (s *setup) run(cmd *cobra.Command) error {
	if _, err := os.Lstat(s.file()); err == nil {
		return &exitError{exitUsage, fmt.Errorf("%s exists already; choose another --dir or remove it", s.file())}
	}
	addresses, err := s.addresses()
	if err != nil {
		return &exitError{exitUsage, err}
	}
	n := config.New{Identity: s.name, Listen: addresses, Admin: s.admin, Full: s.full}
	if s.data != "" {
		if n.Data, err = filepath.Abs(s.data); err != nil {
			return err
		}
	}
	gid, err := groupID(s.group)
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("--group: %w", err)}
	}
	if n.Admin == "" {
		n.Admin = config.AdminBeside(addresses)
	}
	if err := config.CheckAdmin(n.Admin); err != nil {
		return &exitError{exitUsage, fmt.Errorf("--admin: %w", err)}
	}
	partners, err := s.findPartners(&n)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if _, err := os.Lstat(s.dir); errors.Is(err, fs.ErrNotExist) {
		s.made = true
	}
	switch err := devpki.Create(s.pki(), devpki.Options{Name: s.name, Hosts: s.hosts}); {
	case errors.Is(err, fs.ErrExist):
		return &exitError{exitUsage, fmt.Errorf("%w; choose another --dir or remove it", err)}
	case err != nil:
		return unmade(err)
	}
	if err := s.write(&n, partners); err != nil {
		return err
	}
	if gid != noGroup {
		if err := s.share(gid); err != nil {
			return err
		}
	}
	return s.report(cmd, &n, partners)
}

// addresses returns the addresses of the listeners, and makes the certificate valid
// for their hosts.
func (s *setup) addresses() ([]config.Address, error) {
	var all []config.Address
	for _, l := range s.listen {
		list, err := config.ParseListen(l)
		if err != nil {
			return nil, fmt.Errorf("--listen: %w", err)
		}
		all = append(all, list...)
		host := list[0].Host
		if ip, err := netip.ParseAddr(host); err == nil && (ip.IsUnspecified() || ip.IsLoopback()) || host == "" || host == "localhost" {
			continue
		}
		s.hosts = append(s.hosts, host)
	}
	return all, nil
}

// write makes swpd.yaml, with the partners, and changes the files of those here.
func (s *setup) write(n *config.New, partners []*neighbour) error {
	text := config.Template(*n)
	for _, p := range partners {
		var err error
		if text, err = join(s.file(), text, p.name, p.bundle); err != nil {
			return err
		}
	}
	if err := os.WriteFile(s.file(), text, 0o600); err != nil {
		return err
	}
	for _, p := range partners {
		if err := p.addPartner(s); err != nil {
			return err
		}
	}
	return nil
}

// noGroup stands for no group.
const noGroup = -1

func groupID(name string) (int, error) {
	if name == "" {
		return noGroup, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return noGroup, err
	}
	return strconv.Atoi(g.Gid)
}

// share lets a group read what swpd reads. The keys of the authority and of the client stay
// with this user, and a directory that was there before stays the same.
func (s *setup) share(gid int) error {
	type entry struct {
		name string
		mode fs.FileMode
	}
	list := []entry{{s.pki(), 0o750}, {s.file(), 0o640}, {devpki.Server(s.pki()).Key, 0o640}}
	if s.made {
		list = append(list, entry{s.dir, 0o750})
	}
	for _, f := range list {
		if err := errors.Join(os.Chown(f.name, -1, gid), os.Chmod(f.name, f.mode)); err != nil {
			return err
		}
	}
	return nil
}

func (s *setup) report(cmd *cobra.Command, n *config.New, partners []*neighbour) error {
	out := cmd.OutOrStdout()
	_, _ = fmt.Fprintf(out, "made %s\nmade %s with the identity %s\n", s.file(), s.pki(), s.name)
	for _, p := range partners {
		_, _ = fmt.Fprintf(out, "partner %s is %s; it may use the MCP server %q here\n", p.name, p.bundle.Identity, config.Shared)
		if len(p.bundle.Addresses) == 0 {
			_, _ = fmt.Fprintf(out, "partner %s has no address to dial; it has to dial this endpoint\n", p.name)
		}
		if p.file != "" {
			_, _ = fmt.Fprintf(out, "changed %s, which knows this endpoint as partner %s\n", p.file, nameOf(s.name))
		}
		for _, warning := range p.warnings {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "swpd: warning: partner %s: %s\n", p.name, warning)
		}
		if why := unreachable(n); why != nil {
			_, _ = fmt.Fprintf(out, "partner %s cannot dial this endpoint, which has to dial it: %v\n", p.name, why)
		}
	}
	for _, a := range n.Listen {
		if taken(a) {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "swpd: warning: %s is in use on this machine now; stop that program, or choose another port with --listen\n", a)
			break
		}
	}
	_, _ = fmt.Fprintf(out, `
next:
  swpd check --config %[1]s
  swpd run --config %[1]s
  swp-client --identity %[2]s ping %[3]s
`, s.file(), s.pki(), onThisMachine(n.Listen[0].Addr))
	for _, p := range partners {
		if p.file == "" {
			_, _ = fmt.Fprintf(out, "and for the operator of %s, who has to add this endpoint as a partner:\n  swpd cert bundle --config %s\n", p.name, s.file())
		}
	}
	return nil
}

// onThisMachine is how clients on this machine dial the address of a listener.
func onThisMachine(a transport.Addr) string {
	if ip, err := netip.ParseAddr(a.Host); a.Host == "" || err == nil && ip.IsUnspecified() {
		a.Host = "127.0.0.1"
	}
	return strings.TrimSuffix(a.String(), "/")
}

// taken reports whether another program has the port of a TLS listener.
func taken(a config.Address) bool {
	if a.Transport != "tls" || a.Port == 0 {
		return false
	}
	ln, err := net.Listen("tcp", a.HostPort())
	if err == nil {
		_ = ln.Close()
	}
	return errors.Is(err, syscall.EADDRINUSE)
}
