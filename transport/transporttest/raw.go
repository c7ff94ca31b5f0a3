package transporttest

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/slimwire/swp/transport"
)

// Raw is a peer that knows frames but no rules: it sends any octets. Each wait
// ends the test after Patience.
type Raw struct {
	t      testing.TB
	Conn   transport.Conn
	Stream transport.Stream
}

// NewRaw is a Raw on the connection's stream, or on a new one if it is
// multiplexed.
func NewRaw(t testing.TB, conn transport.Conn) *Raw {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	s, err := conn.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return RawOn(t, conn, s)
}

// RawOn is a Raw on a stream that exists already.
func RawOn(t testing.TB, conn transport.Conn, s transport.Stream) *Raw {
	return &Raw{t: t, Conn: conn, Stream: s}
}

// Write sends octets unchanged.
func (r *Raw) Write(p []byte) {
	r.t.Helper()
	_ = r.Stream.SetWriteDeadline(time.Now().Add(Patience))
	if _, err := r.Stream.Write(p); err != nil {
		r.t.Fatalf("raw peer: write: %v", err)
	}
}

// WriteFrame sends body behind its length.
func (r *Raw) WriteFrame(body []byte) {
	r.t.Helper()
	r.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
}

// CloseWrite says that nothing follows.
func (r *Raw) CloseWrite() {
	r.t.Helper()
	if err := r.Stream.CloseWrite(); err != nil {
		r.t.Fatalf("raw peer: close write: %v", err)
	}
}

// ReadFrame returns the body of the next frame.
func (r *Raw) ReadFrame() []byte {
	r.t.Helper()
	var prefix [4]byte
	r.read(prefix[:])
	n := binary.BigEndian.Uint32(prefix[:])
	if n > 1<<24 {
		r.t.Fatalf("raw peer: frame of %d octets", n)
	}
	body := make([]byte, n)
	r.read(body)
	return body
}

func (r *Raw) read(p []byte) {
	r.t.Helper()
	_ = r.Stream.SetReadDeadline(time.Now().Add(Patience))
	if _, err := io.ReadFull(r.Stream, p); err != nil {
		r.t.Fatalf("raw peer: read: %v", err)
	}
}

// ExpectEnd waits until the other side ends the stream, or the connection, and
// returns the error of Read that said so (io.EOF after an orderly end). Octets
// that arrive instead fail the test.
func (r *Raw) ExpectEnd() error {
	r.t.Helper()
	_ = r.Stream.SetReadDeadline(time.Now().Add(Patience))
	n, err := r.Stream.Read(make([]byte, 1))
	if n != 0 || err == nil {
		r.t.Fatal("raw peer: octets where the end was expected")
	}
	if timeout := interface{ Timeout() bool }(nil); errors.As(err, &timeout) && timeout.Timeout() {
		r.t.Fatalf("raw peer: not ended: %v", err)
	}
	return err
}
