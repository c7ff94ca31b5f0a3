package rawquic

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/quic-go/quic-go"

	"github.com/slimwire/swp/test/bench/cert"
	"github.com/slimwire/swp/test/bench/echo"
)

// frames lends the memory of one exchange.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// serveOne answers the one frame of a stream.
func serveOne(stream *quic.Stream) {
	buf := frames.Get().(*[]byte) //nolint:errcheck // the pool holds nothing else
	defer frames.Put(buf)
	frame, err := readFrame(stream, *buf)
	*buf = frame
	if err == nil {
		err = readEnd(stream)
	}
	if err != nil {
		reset(stream)
		return
	}
	if _, err := stream.Write(frame); err != nil {
		return
	}
	_ = stream.Close()
}

// readFrame reads one frame with its header into buf, which it grows.
func readFrame(stream io.Reader, buf []byte) ([]byte, error) {
	if cap(buf) == 0 {
		buf = make([]byte, 512)
	}
	buf = buf[:cap(buf)]
	n, err := io.ReadAtLeast(stream, buf, echo.HeaderSize)
	if err != nil {
		return buf, err
	}
	size, err := echo.Length(buf)
	if err != nil {
		return buf, err
	}
	whole := echo.HeaderSize + size
	if n > whole {
		return buf, errors.New("rawquic: more than one frame on the stream")
	}
	if whole > len(buf) {
		buf = append(make([]byte, 0, whole), buf[:n]...)[:whole]
	}
	_, err = io.ReadFull(stream, buf[n:whole])
	return buf[:whole], err
}

// DialEach connects to the server of ListenEach; each exchange opens a stream.
func DialEach(ctx context.Context, addr string, files cert.Files) (echo.Conn, error) {
	conn, err := dial(ctx, addr, files)
	if err != nil {
		return nil, err
	}
	return eachConn{ctx, conn}, nil
}

type eachConn struct {
	ctx  context.Context
	conn *quic.Conn
}

func (c eachConn) Caller() echo.Caller { return &eachCaller{conn: c} }
func (c eachConn) Close() error        { return c.conn.CloseWithError(0, "") }

type eachCaller struct {
	conn    eachConn
	out, in []byte
}

func (w *eachCaller) Echo(payload []byte, use func([]byte) error) error {
	stream, err := w.conn.conn.OpenStreamSync(w.conn.ctx)
	if err != nil {
		return err
	}
	w.out = append(echo.AppendHeader(w.out[:0], len(payload)), payload...)
	if _, err := stream.Write(w.out); err != nil {
		return err
	}
	if err := stream.Close(); err != nil {
		return err
	}
	if w.in, err = readFrame(stream, w.in); err != nil {
		return err
	}
	if err := readEnd(stream); err != nil {
		return err
	}
	return use(w.in[echo.HeaderSize:])
}

// readEnd reads the end of a stream after its one frame. Until it is read
// quic-go keeps the stream, and the peer has one less to open.
func readEnd(stream *quic.Stream) error {
	var one [1]byte
	switch _, err := stream.Read(one[:]); err {
	case io.EOF:
		return nil
	case nil:
		return errors.New("rawquic: more than one frame on the stream")
	default:
		return err
	}
}
