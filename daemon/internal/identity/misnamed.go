package identity

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"github.com/slimwire/swp/transport"
)

// MisnamedError refuses a peer that may be a partner whose configured identity is wrong.
type MisnamedError struct {
	Partner    string // name of its entry
	Configured string // identity in the entry
	Shown      string // identity in the certificate of the peer
	Dialled    bool   // the peer was dialled at an address of the entry

	// Vouched reports whether an authority of the entry has issued the certificate of the
	// peer. Else any authority may have issued it.
	Vouched bool

	Err error // of the handshake
}

func (e *MisnamedError) Error() string {
	verb := "connects"
	if e.Dialled {
		verb = "answers"
	}
	const longest = 64 // octets of an identity: both, and the key, fit a line of the log
	return fmt.Sprintf("partner %s is configured as %.*s, but %.*s %s (partners.%[1]s.identity)", e.Partner, longest, e.Configured, longest, e.Shown, verb)
}

// Unwrap returns Err.
func (e *MisnamedError) Unwrap() error { return e.Err }

// do is what an operator can do.
func (e *MisnamedError) do() string {
	if e.Vouched {
		return fmt.Sprintf("if this is the endpoint of the partner, correct partners.%s.identity, then run swpd reload", e.Partner)
	}
	return fmt.Sprintf("no authority of this partner issued that certificate: correct partners.%[1]s.addresses, or ask the partner what its swpd cert bundle prints, and correct partners.%[1]s.identity and trust", e.Partner)
}

// Dialled returns err, the error of dialling a partner that is configured as an identity,
// or a *MisnamedError if another identity has answered.
func (c *Credentials) Dialled(partner, configured string, err error) error {
	refused, ok := errors.AsType[*transport.RefusedError](err)
	if !ok || refused.Chain == nil || refused.Identity == "" || refused.Identity == configured {
		return err
	}
	_, vouched := c.anchors(refused.Chain, c.RootsOf(configured))
	return &MisnamedError{Partner: partner, Configured: configured, Shown: refused.Identity, Dialled: true, Vouched: vouched, Err: err}
}

// accepted is Dialled for a peer that has dialled: it may be a partner if its authority is
// one of that partner alone, and its identity belongs to no other partner.
func (c *Credentials) accepted(err error) error {
	b := &c.current.Load().partners
	refused, ok := errors.AsType[*transport.RefusedError](err)
	if !ok || refused.Chain == nil || refused.Identity == "" || b.names[refused.Identity] != "" || !errors.As(err, new(x509.UnknownAuthorityError)) {
		return err
	}
	anchor, vouched := c.anchors(refused.Chain, b.all)
	if !vouched {
		return err
	}
	var vouching []string // identities of partners
	for identity, name := range b.names {
		if slices.ContainsFunc(b.vouching, func(a Anchor) bool { return a.partner == name && a.cert.Equal(anchor) }) {
			vouching = append(vouching, identity)
		}
	}
	if len(vouching) == 0 {
		return err
	}
	nearest := slices.MinFunc(vouching, func(x, y string) int {
		return cmp.Or(cmp.Compare(common(y, refused.Identity), common(x, refused.Identity)), cmp.Compare(x, y))
	})
	return &MisnamedError{Partner: b.names[nearest], Configured: nearest, Shown: refused.Identity, Vouched: true, Err: err}
}

// common returns how many octets two strings begin with alike.
func common(x, y string) int {
	n := 0
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	return n
}

// anchors returns the one of roots that vouches for a chain, leaf first.
func (c *Credentials) anchors(chain []*x509.Certificate, roots *x509.CertPool) (anchor *x509.Certificate, ok bool) {
	between := x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	found, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: c.now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return nil, false
	}
	return found[0][len(found[0])-1], true
}

// Explain returns the error of a security event, or in its place a *MisnamedError, and what
// an operator can do; do is empty if nothing is known.
func (c *Credentials) Explain(ev *transport.SecurityEvent) (why error, do string) {
	misnamed, ok := errors.AsType[*MisnamedError](ev.Err)
	if !ok {
		misnamed, ok = errors.AsType[*MisnamedError](c.accepted(ev.Err))
	}
	var invalid x509.CertificateInvalidError
	switch {
	case ok:
		return misnamed, misnamed.do()
	case errors.As(ev.Err, new(x509.UnknownAuthorityError)):
		b := &c.current.Load().partners
		if name := b.names[ev.Identity]; b.rolling[name].Bundle.Source != "" {
			return ev.Err, "the trust bundle of the partner lacks this authority; if it is new, swpd reload fetches the bundle at once, and else the partner has to publish it there"
		} else if name != "" {
			return ev.Err, "if you trust this authority, add its certificate to partners." + name + ".trust, then run swpd reload"
		}
		return ev.Err, "for another organisation: make it a partner, with the authority that its swpd cert bundle prints in partners.NAME.trust (partners.md); for a program of your own: add its authority to trust.ca"
	case errors.As(ev.Err, &invalid) && invalid.Reason == x509.Expired:
		return ev.Err, "the peer has to renew its certificate, if the clocks of both machines are right"
	case errors.As(ev.Err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return ev.Err, "the extended key usage of the certificate does not allow this side of a connection: the peer needs one with clientAuth and serverAuth, which public authorities do not issue, or has to be dialled"
	case ev.Reason == transport.ReasonDistrusted && ev.Identity != "" && c.DialFault() != "": // a peer that was dialled
		return ev.Err, c.DialFault()
	case ev.Reason == transport.ReasonDistrusted:
		return ev.Err, "the peer has to trust the authority that swpd cert bundle prints here, and to connect to a name or address that swpd cert show lists here; no record was damaged"
	}
	return ev.Err, ""
}
