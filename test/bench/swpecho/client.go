// Package swpecho is the echo over SWP: swp.echo of the RPC profile, called with
// the library as any Go program would call it.
package swpecho

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
	"github.com/slimwire/swp/test/bench/swpd"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/quicconn"
	"github.com/slimwire/swp/transport/tlsconn"
)

// DialTLS connects over mutual TLS. Along a route to a partner the exchange is the partner's
// swp.echo, called by name.
func DialTLS(ctx context.Context, addr string, files cert.Files) (echo.Conn, error) {
	policy, err := policy(files)
	if err != nil {
		return nil, err
	}
	route := swpd.ParseRoute(addr)
	conn, err := tlsconn.Dial(ctx, route.Near, policy, tlsconn.Options{})
	if err != nil {
		return nil, err
	}
	return attach(ctx, conn, route.Name(rpc.MethodEcho), false)
}

// DialList connects over mutual TLS. The exchange is the partner's swp.agents.list, which an
// audit trail has a record of, as it has none of swp.echo. The result is not compared.
func DialList(ctx context.Context, addr string, files cert.Files) (echo.Conn, error) {
	c, err := DialTLS(ctx, swpd.ParseRoute(addr).Near, files)
	if err != nil {
		return nil, err
	}
	to := c.(conn) //nolint:errcheck,forcetypeassert // it is what DialTLS makes
	to.on, to.method = profiles.Toward(to.on.(profiles.Session), swpd.ParseRoute(addr).Partner), "swp.agents.list"
	return lister{to}, nil
}

// lister hands the payload back instead of the result. It is not sent.
type lister struct{ conn }

func (l lister) Caller() echo.Caller { return listing{l.conn.Caller()} }

type listing struct{ calls echo.Caller }

func (l listing) Echo(payload []byte, use func([]byte) error) error {
	return l.calls.Echo([]byte("{}"), func(result []byte) error {
		if len(result) == 0 {
			return errors.New("swpecho: no list")
		}
		return use(payload)
	})
}

// DialQUIC connects over QUIC and makes all exchanges on one stream.
func DialQUIC(ctx context.Context, addr string, files cert.Files) (echo.Conn, error) {
	conn, err := dialQUIC(ctx, addr, files)
	if err != nil {
		return nil, err
	}
	return attach(ctx, conn, rpc.MethodEcho, true)
}

// DialQUICEach connects over QUIC; each exchange opens a stream.
func DialQUICEach(ctx context.Context, addr string, files cert.Files) (echo.Conn, error) {
	conn, err := dialQUIC(ctx, addr, files)
	if err != nil {
		return nil, err
	}
	return attach(ctx, conn, rpc.MethodEcho, false)
}

func dialQUIC(ctx context.Context, addr string, files cert.Files) (transport.Conn, error) {
	policy, err := policy(files)
	if err != nil {
		return nil, err
	}
	return quicconn.Dial(ctx, addr, policy, quicconn.Options{})
}

// policy authenticates both sides by the certificates of the run.
func policy(files cert.Files) (*transport.Policy, error) {
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return nil, fmt.Errorf("swpecho: %w", err)
	}
	ca, err := os.ReadFile(files.CA)
	if err != nil {
		return nil, fmt.Errorf("swpecho: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("swpecho: no authority in " + files.CA)
	}
	credentials := &transport.Credentials{Certificate: &pair, Roots: roots}
	return &transport.Policy{Credentials: func() *transport.Credentials { return credentials }}, nil
}

// conn is one session, with an endpoint of its own.
type conn struct {
	ctx      context.Context
	endpoint *endpoint.Endpoint
	on       profiles.Caller // the session, or its one stream
	method   string
}

// attach makes a session of a connection. lane asks for one stream that all
// calls share.
func attach(ctx context.Context, c transport.Conn, method string, lane bool) (echo.Conn, error) {
	ep, err := newEndpoint()
	if err != nil {
		return nil, errors.Join(err, c.Close(0))
	}
	session := ep.Attach(c)
	if !lane {
		return conn{ctx, ep, session, method}, nil
	}
	l, err := session.Open(ctx)
	if err != nil {
		return nil, errors.Join(err, ep.Close())
	}
	return conn{ctx, ep, l, method}, nil
}

func (c conn) Close() error        { return c.endpoint.Close() }
func (c conn) Caller() echo.Caller { return caller{c, rpc.NewCaller(c.on)} }

// caller makes one call after the other.
type caller struct {
	conn
	calls *rpc.Caller
}

func (c caller) Echo(payload []byte, use func([]byte) error) error {
	result, err := c.calls.Call(c.ctx, c.method, payload)
	if err != nil {
		return err
	}
	return use(result)
}

// newEndpoint serves the built-in RPC methods.
func newEndpoint() (*endpoint.Endpoint, error) {
	profile, err := rpc.New(rpc.Options{})
	if err != nil {
		return nil, err
	}
	registry, err := profiles.NewRegistry(profile)
	if err != nil {
		return nil, err
	}
	return endpoint.New(endpoint.Options{Registry: registry})
}
