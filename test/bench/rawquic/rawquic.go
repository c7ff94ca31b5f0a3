// Package rawquic is the echo over quic-go with nothing between: the gathered
// echo on one long-lived stream, or a stream for each exchange.
package rawquic

import (
	"context"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
	"github.com/slimwire/swp/test/bench/gather"
)

const alpn = "bench-quic"

// options are quic-go's defaults but for the number of streams that a peer may
// have open, which is SWP's: a stream per exchange within a bound is what both
// do.
func options() *quic.Config {
	return &quic.Config{
		MaxIncomingStreams:    128,
		MaxIncomingUniStreams: -1,
		MaxIdleTimeout:        time.Minute,
	}
}

// ListenLong starts the server of Dial: each stream is a gathered echo.
func ListenLong(_ context.Context, files cert.Files) (string, error) {
	return listen(files, func(stream *quic.Stream) {
		if gather.Serve(stream) != nil {
			reset(stream)
			return
		}
		_ = stream.Close()
	})
}

// ListenEach starts the server of DialEach: each stream is one exchange.
func ListenEach(_ context.Context, files cert.Files) (string, error) {
	return listen(files, serveOne)
}

func listen(files cert.Files, serve func(*quic.Stream)) (string, error) {
	config, err := files.ServerTLS(alpn)
	if err != nil {
		return "", err
	}
	ln, err := quic.ListenAddr("127.0.0.1:0", config, options())
	if err != nil {
		return "", err
	}
	go func() {
		for {
			conn, err := ln.Accept(context.Background())
			if err != nil {
				return
			}
			go func() {
				for {
					stream, err := conn.AcceptStream(context.Background())
					if err != nil {
						return
					}
					go serve(stream)
				}
			}()
		}
	}()
	return ln.Addr().String(), nil
}

func dial(ctx context.Context, addr string, files cert.Files) (*quic.Conn, error) {
	config, err := files.ClientTLS(alpn)
	if err != nil {
		return nil, err
	}
	return quic.DialAddr(ctx, addr, config, options())
}

// Dial connects to the server of ListenLong; all exchanges share one stream.
func Dial(ctx context.Context, addr string, files cert.Files) (echo.Conn, error) {
	conn, err := dial(ctx, addr, files)
	if err != nil {
		return nil, err
	}
	stream, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	return gather.NewClient(ctx, longStream{stream, conn}), nil
}

// longStream is the one stream of its connection.
type longStream struct {
	*quic.Stream
	conn *quic.Conn
}

func (s longStream) Close() error { return s.conn.CloseWithError(0, "") }

func reset(stream *quic.Stream) {
	stream.CancelRead(1)
	stream.CancelWrite(1)
}
