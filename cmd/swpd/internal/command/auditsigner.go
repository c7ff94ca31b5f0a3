package command

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slimwire/swp/cmd/internal/cli"
	"github.com/slimwire/swp/daemon/certinfo"
	"github.com/slimwire/swp/daemon/check"
	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/audit"
)

// auditSigner is the endpoint whose checkpoints are trusted, as the command line says.
type auditSigner struct {
	file     string // configuration
	identity string
	ca       []string
	part     bool
	dir      string
}

// trust returns the trust in the signatures of checkpoints.
func (s *auditSigner) trust(cmd *cobra.Command) (audit.Trust, error) {
	roots, err := s.roots()
	if err != nil {
		return nil, err
	}
	if s.identity == "" || len(s.ca) == 0 {
		if err := s.configured(cmd); err != nil {
			return nil, err
		}
		if roots, err = s.roots(); err != nil {
			return nil, err
		}
	}
	return audit.TrustOf(s.identity, roots), nil
}

// roots reads the authorities. A bundle of a partner also says the identity.
func (s *auditSigner) roots() (*x509.CertPool, error) {
	roots := x509.NewCertPool()
	for _, name := range s.ca {
		text, err := cli.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("audit: %s holds no certificate in PEM form", name)
		}
		if bundle, err := certinfo.DecodeBundle(text); err == nil && s.identity == "" {
			s.identity = bundle.Identity
		}
	}
	return roots, nil
}

// configured takes what the command line does not say from the configuration.
func (s *auditSigner) configured(cmd *cobra.Command) error {
	c, err := loadIdentity(cmd, s.file, config.Needs{Keys: []string{"identity", "trust", "data"}})
	if err != nil {
		return err
	}
	own, anchors, err := check.Own(c)
	if s.file == "" && errors.Is(err, fs.ErrNotExist) {
		return s.missing(cmd.Context())
	}
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	s.identity = cmp.Or(s.identity, own)
	if len(s.ca) == 0 {
		s.ca = anchors
	}
	return nil
}

// missing says what to add to the command line.
func (s *auditSigner) missing(ctx context.Context) error {
	claimed := ""
	for e, err := range audit.Entries(ctx, s.dir, false) {
		if err != nil {
			return err
		}
		claimed = cmp.Or(e.Claimed, claimed)
	}
	if claimed == "" {
		return cli.Usagef("audit: %s has no checkpoint; name the configuration of its endpoint with --config", s.dir)
	}
	words := []string{"swpd audit verify"}
	if s.part {
		words = append(words, "--part")
	}
	words = append(words, "--identity", cmp.Or(s.identity, claimed))
	for _, name := range s.ca {
		words = append(words, "--ca", name)
	}
	hint := ""
	if len(s.ca) == 0 {
		words = append(words, "--ca FILE")
		hint = "\nFILE has its authority, as swpd cert bundle prints it there."
	}
	return cli.Usagef("audit: whose checkpoints are trusted? Those of %s say that they are of %s, which only you can know\n"+
		"If that is so: %s %s%s\nOr name the configuration of that endpoint with --config.", s.dir, claimed, strings.Join(words, " "), s.dir, hint)
}
