package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"sync/atomic"
)

// Leaves are the certificates that the two ends of a connection have presented in its
// handshake. A reload does not change them.
type Leaves struct {
	Own  *tls.Certificate // leaf first, with its private key
	Peer *x509.Certificate
}

// Certified is a connection whose ends have both presented a certificate.
type Certified interface {
	// Leaves returns the certificates. Any goroutine may call it.
	Leaves() Leaves
}

// Chained is a connection whose peer has presented certificates.
type Chained interface {
	// Chain returns them, the leaf first. Any goroutine may call it.
	Chain() []*x509.Certificate
}

// Presented takes note of the certificate that this side presents in one handshake.
type Presented struct {
	own atomic.Pointer[tls.Certificate]
}

type presentedKey struct{}

// NotePresented returns ctx for one handshake under a Policy, and the Presented of that
// handshake.
func NotePresented(ctx context.Context) (context.Context, *Presented) {
	p := new(Presented)
	return context.WithValue(ctx, presentedKey{}, p), p
}

// Leaves returns the certificates of a finished handshake.
func (p *Presented) Leaves(s tls.ConnectionState) Leaves {
	return Leaves{Own: p.own.Load(), Peer: s.PeerCertificates[0]}
}

// present returns the certificate of this side, and notes it for the handshake of ctx.
func (p *Policy) present(ctx context.Context) (*tls.Certificate, error) {
	own, err := p.certificate()
	if noted, ok := ctx.Value(presentedKey{}).(*Presented); ok && err == nil {
		noted.own.Store(own)
	}
	return own, err
}
