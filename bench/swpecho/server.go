package swpecho

import (
	"context"

	"github.com/slimwire/swp/bench/cert"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/tlsconn"
)

// Listen serves swp.echo over TLS and over QUIC on the same port, with the
// packages that swpd is made of and the limits it is measured with. It is for
// what cannot be seen from outside of swpd: profiles and forced collections.
func Listen(ctx context.Context, files cert.Files) (string, error) {
	policy, err := policy(files)
	if err != nil {
		return "", err
	}
	overTLS, err := tlsconn.Listen("127.0.0.1:0", policy, tlsconn.Options{})
	if err != nil {
		return "", err
	}
	addr := overTLS.Addr().String()
	overQUIC, err := quicconn.Listen(addr, policy, quicconn.Options{})
	if err != nil {
		return "", err
	}
	ep, err := newEndpoint()
	if err != nil {
		return "", err
	}
	go func() { _ = ep.Serve(ctx, overTLS) }()
	go func() { _ = ep.Serve(ctx, overQUIC) }()
	return addr, nil
}
