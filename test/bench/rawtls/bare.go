package rawtls

import (
	"context"
	"crypto/tls"
	"io"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
)

// ListenBare starts the smallest server that Go can be asked for: a goroutine a
// connection and no buffer but for the one frame. It is what an idle connection
// is compared with.
func ListenBare(ctx context.Context, files cert.Files) (string, error) {
	return listen(ctx, files, serveBare)
}

// bareFrame is the largest frame that the bare server takes.
const bareFrame = echo.HeaderSize + 128

// serveBare answers frames one by one.
func serveBare(conn *tls.Conn) {
	var frame [bareFrame]byte
	for {
		if _, err := io.ReadFull(conn, frame[:echo.HeaderSize]); err != nil {
			return
		}
		n, err := echo.Length(frame[:])
		if err != nil || n > bareFrame-echo.HeaderSize {
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

// DialBare connects to the bare server, one exchange at a time.
func DialBare(ctx context.Context, addr string, files cert.Files) (echo.Conn, error) {
	config, err := files.ClientTLS()
	if err != nil {
		return nil, err
	}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return bareConn{conn}, nil
}

type bareConn struct{ io.ReadWriteCloser }

func (c bareConn) Caller() echo.Caller { return c }

func (c bareConn) Echo(payload []byte, use func([]byte) error) error {
	frame := append(echo.AppendHeader(nil, len(payload)), payload...)
	if _, err := c.Write(frame); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, frame); err != nil {
		return err
	}
	return use(frame[echo.HeaderSize:])
}
