package transport

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"
)

// ValidityError is the fault of a certificate that is not valid at a time.
type ValidityError struct {
	Subject             string // of the certificate, which may be an intermediate one
	Now                 time.Time
	NotBefore, NotAfter time.Time
}

func (e *ValidityError) Error() string {
	const day = "2006-01-02 15:04 MST"
	if e.Now.Before(e.NotBefore) {
		return fmt.Sprintf("transport: certificate of %s is not valid before %s, and it is %s", e.Subject, e.NotBefore.UTC().Format(day), e.Now.UTC().Format(day))
	}
	return fmt.Sprintf("transport: certificate of %s expired at %s, and it is %s", e.Subject, e.NotAfter.UTC().Format(day), e.Now.UTC().Format(day))
}

// CheckShown returns the fault for which peers would refuse a chain of this side, leaf
// first, for any authorities that they trust. It checks size, keys, names and usage, and last
// the validity period, whose fault is a *ValidityError.
func CheckShown(chain []*x509.Certificate, usage x509.ExtKeyUsage, now time.Time) error {
	if len(chain) == 0 {
		return errNoOwn
	}
	if err := checkCaps(chain); err != nil {
		return err
	}
	leaf := chain[0]
	restricted := len(leaf.ExtKeyUsage)+len(leaf.UnknownExtKeyUsage) > 0
	if restricted && !slices.Contains(leaf.ExtKeyUsage, usage) && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
		return fmt.Errorf("transport: the extended key usage of the certificate lacks %s", usageName(usage))
	}
	if _, err := Identity(leaf); err != nil {
		return err
	}
	for _, c := range chain {
		if now.Before(c.NotBefore) || now.After(c.NotAfter) {
			return &ValidityError{Subject: c.Subject.String(), Now: now, NotBefore: c.NotBefore, NotAfter: c.NotAfter}
		}
	}
	return nil
}

func usageName(usage x509.ExtKeyUsage) string {
	if usage == x509.ExtKeyUsageServerAuth {
		return "serverAuth"
	}
	return "clientAuth"
}
