package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/internal/disk"
	"github.com/slimwire/swp/transport"
)

// Lists are revocation lists, with their files.
type Lists []listed

type listed struct {
	*transport.CRL
	file  string
	stale string // why the list in the configured file is not in force, and this one stays; empty: it is
}

// KeptLists is a directory with the newest revocation list of each authority that was in force. An older
// one never replaces it, also after a restart. The zero value keeps nothing.
type KeptLists struct {
	dir string
	now func() time.Time
}

// KeptListsOf returns the kept lists of a configuration.
func KeptListsOf(c *config.Config, now func() time.Time) KeptLists {
	return KeptLists{filepath.Join(c.Data, "crls"), now}
}

const (
	crlExt  = ".crl"
	crlSkew = 5 * time.Minute // of the clock of an authority
)

func (k KeptLists) file(c *transport.CRL) string { return filepath.Join(k.dir, c.Of()+crlExt) }

// Read reads revocation lists of authorities. It also returns the content of the files, to
// detect changes. If the newest list of an authority is older than the kept one, or from the future,
// the kept one is among the lists, and Stale says so. The error names the key of the
// configuration and the file.
func (k KeptLists) Read(key string, files []string, authorities []Anchor) (all Lists, octets string, err error) {
	certs := make([]*x509.Certificate, len(authorities))
	for i, a := range authorities {
		certs[i] = a.cert
	}
	newest := make(map[string]*listed) // by authority
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, "", fmt.Errorf("%s[%d]: %w", key, i, config.Unreadable(file, err))
		}
		crls, err := transport.ParseCRLs(text, certs)
		if err != nil {
			return nil, "", fmt.Errorf("%s[%d]: %s: %w", key, i, file, err)
		}
		for _, c := range crls {
			one := listed{CRL: c, file: file}
			if ahead := c.ThisUpdate.Sub(k.time()); ahead > crlSkew {
				one.stale = fmt.Sprintf("%s[%d]: the %v in %s is from the future, and now is %s: compare the clocks, or get the list again", key, i, c, file, k.time().UTC().Format(time.RFC3339))
			} else {
				all = append(all, one)
			}
			if of := newest[c.Of()]; of == nil || of.stale != "" || of.Older(c) && one.stale == "" {
				newest[c.Of()] = &one
			}
		}
		octets += string(text)
	}
	for _, one := range newest {
		kept, err := k.load(one.CRL, certs)
		switch {
		case err != nil:
			return nil, "", fmt.Errorf("%s: the kept revocation list: %w", key, err)
		case kept == nil && one.stale != "":
			return nil, "", errors.New(one.stale)
		case kept == nil:
			continue
		case one.stale == "" && one.Older(kept):
			one.stale = fmt.Sprintf("%s: the %v in %s is older than that with the %v, which was in force and stays; get the newest list, or, if the authority has begun to count again, remove %s and run swpd reload",
				key, one.CRL, one.file, kept, k.file(kept))
		}
		if one.stale != "" {
			all = append(all, listed{CRL: kept, file: k.file(kept), stale: one.stale})
		}
	}
	return all, octets, nil
}

func (k KeptLists) time() time.Time {
	if k.now == nil {
		return time.Now()
	}
	return k.now()
}

// load returns the kept list of the authority of another one; nil without one.
func (k KeptLists) load(of *transport.CRL, authorities []*x509.Certificate) (*transport.CRL, error) {
	if k.dir == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	text, err := os.ReadFile(k.file(of))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // as documented
	}
	if err != nil {
		return nil, err
	}
	crls, err := transport.ParseCRLs(text, authorities)
	if err == nil && (len(crls) != 1 || crls[0].Of() != of.Of()) {
		err = errors.New("it is not one list of the authority in its name")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove it if it is damaged", k.file(of), err)
	}
	return crls[0], nil
}

// Keep keeps the newest of the lists of each authority. They are those in force.
func (k KeptLists) Keep(all Lists) error {
	if k.dir == "" {
		return nil
	}
	newest := make(map[string]*transport.CRL)
	for _, one := range all {
		if old := newest[one.Of()]; old == nil || old.Older(one.CRL) {
			newest[one.Of()] = one.CRL
		}
	}
	var failed error
	for _, c := range newest {
		if text, err := os.ReadFile(k.file(c)); err == nil && slices.Equal(text, c.Raw) {
			continue
		}
		if err := disk.Keep(k.file(c), c.Raw); err != nil {
			failed = errors.Join(failed, fmt.Errorf("the %v is in force, but not kept for the next start: %w", c, err))
		}
	}
	return failed
}

// Stale returns an error if kept lists are in force in place of lists in the files.
func (l Lists) Stale() error {
	var all error
	for _, one := range l {
		if one.stale != "" {
			all = errors.Join(all, errors.New(one.stale))
		}
	}
	return all
}

// CRLs returns the lists without their files.
func (l Lists) CRLs() (all []*transport.CRL) {
	for _, one := range l {
		all = append(all, one.CRL)
	}
	return all
}

// Warnings returns a warning for each list that its authority should have replaced, and for each kept
// one. They stay in force.
func (l Lists) Warnings(now time.Time) (list []string) {
	for _, one := range l {
		if one.stale != "" {
			list = append(list, one.stale)
		}
		if !one.NextUpdate.IsZero() && now.After(one.NextUpdate) {
			list = append(list, fmt.Sprintf("the revocation list of %q in %s has expired at %s and stays in force; certificates that were revoked since are not known: get the next list of the authority",
				one.Authority(), one.file, one.NextUpdate.UTC().Format(time.RFC3339)))
		}
	}
	return list
}
