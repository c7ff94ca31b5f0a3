// Package echo is the contract between the load and the systems that are
// compared: what each must offer so that the same closed loop can drive it.
package echo

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/slimwire/swp/test/bench/cert"
)

// Conn is one connection to a server. It is safe for concurrent use.
type Conn interface {
	// Caller returns what one goroutine makes its exchanges with.
	Caller() Caller

	// Close ends the connection; calls that wait fail.
	Close() error
}

// Caller makes one exchange after the other. It belongs to one goroutine.
type Caller interface {
	// Echo sends payload and hands what came back to use, whose error it
	// returns. The answer is valid until use returns, and with Echo everything
	// that belongs to the exchange is over. payload is neither modified nor kept.
	Echo(payload []byte, use func(answer []byte) error) error
}

// Dial opens a connection to a server. ctx is in force for the whole life of the
// connection: when it ends, calls fail.
type Dial func(ctx context.Context, addr string, files cert.Files) (Conn, error)

// Listen starts a server on a free port of the loopback interface and returns
// its address. The server lasts as long as the process, whose context ctx is.
type Listen func(ctx context.Context, files cert.Files) (addr string, err error)

// HeaderSize is the size of the length that AppendFrame writes.
const HeaderSize = 4

// MaxFrame is the largest body that the raw systems accept, as large as SWP's.
const MaxFrame = 8 << 20

// ErrFrame reports a length that the raw systems do not accept.
var ErrFrame = errors.New("echo: length 0 or above 8 MiB")

// AppendHeader appends the frame header of the raw systems: the length of the
// body in four octets, as SWP has it.
func AppendHeader(dst []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}

// Length returns the length of the body after a header.
func Length(header []byte) (int, error) {
	n := binary.BigEndian.Uint32(header)
	if n == 0 || n > MaxFrame {
		return 0, ErrFrame
	}
	return int(n), nil
}
