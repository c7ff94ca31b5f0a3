package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/devpki"
)

func newCert() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cert",
		Short: "Make, renew, show and export certificates",
		Long: `Make, renew and show certificates, and export the authority for a partner. new and
renew use the authority that swpd init made, which is for development; show and bundle
read certificates of any origin.`,
		Example: `  swpd cert new --name spiffe://example.org/agents/planner --pki edge/pki
  swpd cert renew edge/pki
  swpd cert show edge/pki
  swpd cert bundle --config edge/swpd.yaml > edge.pem`,
	}
	cmd.AddCommand(newCertNew(), newCertRenew(), newCertShow(), newCertBundle())
	return cmd
}

// pkiFlag adds --pki.
func pkiFlag(cmd *cobra.Command, usage string) *string {
	return cmd.Flags().String("pki", "", "`directory` with the authority of swpd init"+usage)
}

// daysFlag adds --days.
func daysFlag(cmd *cobra.Command, usage string) *int {
	return cmd.Flags().Int("days", 0, "validity as a `number` of days"+usage)
}

// life is how long a certificate of so many days lives; 0 is the default.
func life(cmd *cobra.Command, days int) (time.Duration, error) {
	if cmd.Flags().Changed("days") && (days < 1 || days > 3650) {
		return 0, &exitError{exitUsage, fmt.Errorf("--days is %d, want 1 to 3650", days)}
	}
	return time.Duration(days) * 24 * time.Hour, nil
}

func newCertNew() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new --name URI",
		Short: "Issue a certificate for a further client or endpoint",
		Long: `Issue a certificate from the authority that swpd init made, in a new directory:
client.crt, client.key and ca.crt, for swp-client --identity. With --server it is for an
endpoint, which may be dialled and dial: server.crt and server.key, for the section
identity of a swpd.yaml. Nothing is overwritten.`,
		Example: `  swpd cert new --name spiffe://example.org/agents/planner --pki edge/pki
  swp-client --identity planner ping swp+tls://127.0.0.1:7777
  swpd cert new --name spiffe://example.org/ide --pki edge/pki --dir ide --days 30
  swpd cert new --name spiffe://example.org/edge2 --pki edge/pki --server --host edge2.example.org`,
	}
	name := cmd.Flags().String("name", "", "identity, a `URI` such as spiffe://example.org/agents/planner; required")
	pki := pkiFlag(cmd, ", default where cert show looks")
	dir := cmd.Flags().String("dir", "", "new `directory` for it, default the last part of the name")
	server := cmd.Flags().Bool("server", false, "for an endpoint, which accepts connections and dials")
	hosts := cmd.Flags().StringArray("host", nil, "with --server: additional DNS `name` or IP address; repeatable")
	days := daysFlag(cmd, ", default 365")
	_ = cmd.MarkFlagRequired("name")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r := devpki.Request{Name: *name, Server: *server, Hosts: *hosts}
		var err error
		if r.Life, err = life(cmd, *days); err != nil {
			return err
		}
		if *pki == "" {
			if *pki, err = identityDir(cmd); err != nil {
				return err
			}
		}
		if *dir == "" {
			*dir = path.Base(*name)
		}
		authority, err := openAuthority(*pki)
		if err != nil {
			return err
		}
		f, err := authority.Issue(*dir, r)
		if errors.Is(err, fs.ErrExist) {
			return &exitError{exitUsage, fmt.Errorf("%w; choose another --dir, or renew it: swpd cert renew %s", err, *dir)}
		}
		if err != nil {
			return unmade(err)
		}
		return printMade(cmd, f, *pki, *server)
	}
	return cmd
}

// loadIdentity is load for the identity of the endpoint. Without a file, the development identity is that of
// ./pki as swpd init makes it, if that exists; else that of swpd run.
func loadIdentity(cmd *cobra.Command, file string, needs config.Needs) (*config.Config, error) {
	c, err := load(cmd, file, needs)
	if err == nil && c.Source == "" && os.Getenv("SWPD_DATA") == "" && len(devpki.Leaves("pki")) > 0 {
		c.Data = "."
	}
	return c, err
}

// identityDir is where the certificates are that loadIdentity means without a file.
func identityDir(cmd *cobra.Command) (string, error) {
	c, err := loadIdentity(cmd, os.Getenv("SWPD_CONFIG"), config.Needs{Keys: []string{"identity", "data"}})
	switch {
	case err != nil:
		return "", err
	case c.Development():
		return c.IdentityDir(), nil
	case c.Identity.SPIFFE != "":
		return "", &exitError{exitUsage, fmt.Errorf("the certificate comes from %s, which also renews it; name a directory for another one", c.Identity.SPIFFE)}
	}
	return filepath.Dir(c.Identity.Cert), nil
}

// openAuthority reads an authority and says where there may be one.
func openAuthority(pki string) (*devpki.Authority, error) {
	authority, err := devpki.Open(pki)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &exitError{exitUsage, fmt.Errorf("%s has no authority with its key (ca.crt and ca.key); name the directory that swpd init made with --pki", pki)}
	}
	return authority, cli.Unreadable(err)
}

// unmade is the error for certificates that were not made: what was asked for is wrong,
// unless a file could not be written.
func unmade(err error) error {
	if errors.As(err, new(*fs.PathError)) {
		return err
	}
	return &exitError{exitUsage, err}
}

// endpointOf is the address of the endpoint that swpd init has made with an authority.
func endpointOf(pki string) string {
	c, _, err := config.Needs{Keys: []string{"listeners"}}.Load(filepath.Join(filepath.Dir(pki), "swpd.yaml"), nil, nil)
	if err != nil {
		return "ADDR"
	}
	return addressHere(c)
}

func printMade(cmd *cobra.Command, f devpki.Files, pki string, server bool) error {
	out := cmd.OutOrStdout()
	infos, err := readInfos(f)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "made %s with the identity %s, valid until %s\n", f.Cert, infos.Identity, day(infos.NotAfter))
	dir := filepath.Dir(f.Cert)
	if server {
		_, _ = fmt.Fprintf(out, "\nin the swpd.yaml of that endpoint:\n  identity: {cert: %s, key: %s}\n  trust: {ca: [%s]}\n", f.Cert, f.Key, f.CA)
		return nil
	}
	_, _ = fmt.Fprintf(out, "\nnext:\n  swp-client --identity %s ping %s\n", dir, endpointOf(pki))
	return nil
}

func newCertRenew() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "renew [DIR|FILE]...",
		Short: "Renew certificates, for the same names",
		Long: `Renew the certificates in a directory, or a single one: same names, same uses, and the
same lifetime unless --days is given. The key stays, so that only one file changes, in
one step; --new-key makes a new key. A running swpd uses the new certificate for new
connections within two seconds; existing connections continue. Only certificates of the
authority of swpd init are renewed. Renew certificates of another authority there, and
replace the files.`,
		Example: `  swpd cert renew edge/pki
  swpd cert renew edge/pki/server.crt --days 90
  swpd cert renew planner --pki edge/pki --new-key`,
	}
	pki := pkiFlag(cmd, ", default that of the certificate")
	newKey := cmd.Flags().Bool("new-key", false, "also make a new key")
	days := daysFlag(cmd, ", default as before")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		life, err := life(cmd, *days)
		if err != nil {
			return err
		}
		if len(args) == 0 {
			dir, err := identityDir(cmd)
			if err != nil {
				return err
			}
			args = []string{dir}
		}
		renewals, err := renewals(args, *pki)
		if err != nil {
			return err
		}
		for _, r := range renewals {
			cert, err := r.authority.Renew(r.files, *newKey, life, time.Now())
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(cmd.OutOrStdout(), "renewed %s, valid until %s\n", r.files.Cert, day(cert.NotAfter))
		}
		_, _ = fmt.Fprintln(cmd.OutOrStdout(), "a running swpd shows it to new connections within two seconds; those that exist go on")
		return nil
	}
	return cmd
}

// renewal is a certificate to renew and the authority that does it.
type renewal struct {
	authority *devpki.Authority
	files     devpki.Files
}

// renewals looks at everything before anything is renewed.
func renewals(args []string, pki string) ([]renewal, error) {
	var list []renewal
	for _, arg := range args {
		found := devpki.Leaves(arg)
		if len(found) == 0 {
			return nil, &exitError{exitUsage, fmt.Errorf("%s is no certificate with its key beside it, and no directory with server.crt or client.crt", arg)}
		}
		from := pki
		if from == "" {
			from = filepath.Dir(found[0].Cert)
		}
		authority, err := openAuthority(from)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if err := authority.Issued(f); err != nil {
				return nil, &exitError{exitUsage, err}
			}
			list = append(list, renewal{authority, f})
		}
	}
	return list, nil
}

func day(t time.Time) string { return t.UTC().Format(time.RFC3339) }
