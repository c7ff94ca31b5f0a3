// Package rawtls is the gathered echo over mutual TLS on TCP.
package rawtls

import (
	"context"
	"crypto/tls"
	"io"
	"net"

	"github.com/slimwire/swp/bench/cert"
	"github.com/slimwire/swp/bench/echo"
	"github.com/slimwire/swp/bench/gather"
)

// Listen starts the server that gathers its answers.
func Listen(files cert.Files) (string, error) {
	return listen(files, func(conn *tls.Conn) { _ = gather.Serve(conn) })
}

// ListenBare starts the smallest server that Go can be asked for: a goroutine a
// connection and no buffer but for the one frame. It is what an idle connection
// is compared with.
func ListenBare(files cert.Files) (string, error) {
	return listen(files, serveBare)
}

func listen(files cert.Files, serve func(*tls.Conn)) (string, error) {
	config, err := files.ServerTLS()
	if err != nil {
		return "", err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
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
			if err := conn.Handshake(); err != nil {
				_ = raw.Close()
				return
			}
			// The stack of a handshake is 8 KiB and never shrinks while its
			// goroutine waits; a fresh one keeps an idle connection small.
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}()
	}
}

// serveBare answers frames of at most 128 octets one by one, and lends no more
// than that to a connection that is silent.
func serveBare(conn *tls.Conn) {
	var frame [echo.HeaderSize + 128]byte
	for {
		if _, err := io.ReadFull(conn, frame[:echo.HeaderSize]); err != nil {
			return
		}
		n, err := echo.Length(frame[:])
		if err != nil || n > len(frame)-echo.HeaderSize {
			return
		}
		whole := frame[:echo.HeaderSize+n]
		if _, err := io.ReadFull(conn, whole[echo.HeaderSize:]); err != nil {
			return
		}
		if _, err := conn.Write(whole); err != nil {
			return
		}
	}
}

// Dial connects to either server.
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
