// Package natsecho is the echo as NATS request-reply: a server with a responder
// that is connected to it over TLS, in one process, and requesters in another.
package natsecho

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
)

const (
	subject = "bench.echo"
	patient = 30 * time.Second
)

// Listen starts the server and its responder.
func Listen(_ context.Context, files cert.Files) (string, error) {
	s, err := start(files, func(*server.Options) {})
	if err != nil {
		return "", err
	}
	addr := s.Addr().String()
	responder, err := connect(addr, files)
	if err != nil {
		return "", err
	}
	if _, err := responder.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond(m.Data) }); err != nil {
		return "", err
	}
	return addr, responder.Flush()
}

// start starts a server.
func start(files cert.Files, adjust func(*server.Options)) (*server.Server, error) {
	config, err := files.ServerTLS()
	if err != nil {
		return nil, err
	}
	opts := &server.Options{
		Host:       "127.0.0.1",
		Port:       server.RANDOM_PORT,
		TLSConfig:  config,
		TLS:        true,
		TLSVerify:  true,
		TLSTimeout: patient.Seconds(),
		MaxPayload: echo.MaxFrame,
		NoLog:      true,
		NoSigs:     true,
	}
	adjust(opts)
	s, err := server.NewServer(opts)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(patient) {
		return nil, errors.New("natsecho: the server is not ready")
	}
	return s, nil
}

func connect(addr string, files cert.Files) (*nats.Conn, error) {
	config, err := files.ClientTLS()
	if err != nil {
		return nil, err
	}
	return nats.Connect("tls://"+addr, nats.Secure(config), nats.Timeout(patient), nats.NoReconnect())
}

// Dial connects a requester.
func Dial(ctx context.Context, addr string, files cert.Files) (echo.Conn, error) {
	nc, err := connect(addr, files)
	if err != nil {
		return nil, err
	}
	return &conn{nc: nc, stop: context.AfterFunc(ctx, nc.Close)}, nil
}

type conn struct {
	nc   *nats.Conn
	stop func() bool
}

func (c *conn) Caller() echo.Caller { return caller{c.nc} }

func (c *conn) Close() error {
	c.stop()
	c.nc.Close()
	return nil
}

type caller struct{ nc *nats.Conn }

func (w caller) Echo(payload []byte, use func([]byte) error) error {
	m, err := w.nc.Request(subject, payload, patient)
	if err != nil {
		return err
	}
	return use(m.Data)
}
