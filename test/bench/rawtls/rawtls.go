// Package rawtls is the gathered echo over mutual TLS on TCP.
package rawtls

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
	"github.com/slimwire/swp/test/bench/gather"
)

// Listen starts the server that gathers its answers.
func Listen(ctx context.Context, files cert.Files) (string, error) {
	return listen(ctx, files, func(conn *tls.Conn) { _ = gather.Serve(conn) })
}

func listen(ctx context.Context, files cert.Files, serve func(*tls.Conn)) (string, error) {
	config, err := files.ServerTLS()
	if err != nil {
		return "", err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go accept(ln, config, serve)
	return ln.Addr().String(), nil
}

func accept(ln net.Listener, config *tls.Config, serve func(*tls.Conn)) {
	for {
		raw, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			conn := tls.Server(raw, config)
			if err := conn.HandshakeContext(context.Background()); err != nil {
				_ = raw.Close()
				return
			}
			// The stack of a handshake is 8 KiB and never shrinks while its
			// goroutine waits; a fresh one keeps an idle connection small.
			go func() {
				serve(conn)
				_ = conn.Close()
			}()
		}()
	}
}

// Dial connects to the server of Listen.
func Dial(ctx context.Context, addr string, files cert.Files) (echo.Conn, error) {
	config, err := files.ClientTLS()
	if err != nil {
		return nil, err
	}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return gather.NewClient(ctx, conn), nil
}
