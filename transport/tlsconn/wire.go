package tlsconn

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// maxHandshake is how many octets a peer may send before its handshake is
// over. Certificates of 32 KiB fit, a certificate message of 256 KiB, which
// crypto/tls would read to its end, does not.
const maxHandshake = 64 << 10

// closeWait is how long Close tries to tell a peer that does not read.
const closeWait = 250 * time.Millisecond

var (
	errHandshakeSize = errors.New("tlsconn: more than 65536 octets before the end of the handshake")

	// errCut is what crypto/tls sees instead of io.EOF, which it would pass on
	// as if close_notify had been received.
	errCut = cutError{}
)

type cutError struct{}

func (cutError) Error() string { return "tlsconn: the connection ended without close_notify" }
func (cutError) Unwrap() error { return io.ErrUnexpectedEOF }

// wire is the net.Conn under a tls.Conn.
type wire struct {
	net.Conn
	shaking *handshake // nil once the handshake is over
	failed  error      // what the last Read returned
	closing atomic.Bool
	said    bool // the last word was said: what crypto/tls writes after it is dropped
}

// alertNoApplicationProtocol is the number of an alert of TLS.
const alertNoApplicationProtocol = 120

// alert ends a handshake, of which nothing is encrypted yet, with a fatal alert of
// our own in the place of the one that crypto/tls would send.
func (w *wire) alert(number byte) {
	_, _ = w.Write([]byte{21, 3, 3, 0, 2, 2, number})
	w.said = true
}

// handshake is the state of a wire while its handshake runs.
type handshake struct {
	slots chan struct{} // nil for a dialler
	read  int
}

// acquire and release bound how many handshakes compute at once. A slot is
// never held while the peer is waited for: with one slot held through Read,
// 500 silent peers keep a good one waiting until they time out.
func (h *handshake) acquire() {
	if h.slots != nil {
		h.slots <- struct{}{}
	}
}

func (h *handshake) release() {
	if h.slots != nil {
		<-h.slots
	}
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.read(p)
	if err == io.EOF {
		err = errCut
	}
	w.failed = err
	return n, err
}

func (w *wire) read(p []byte) (int, error) {
	h := w.shaking
	if h == nil {
		return w.Conn.Read(p)
	}
	h.release()
	n, err := w.Conn.Read(p)
	h.acquire()
	if h.read += n; h.read > maxHandshake {
		return 0, errHandshakeSize
	}
	return n, err
}

func (w *wire) Write(p []byte) (int, error) {
	if w.said {
		return len(p), nil
	}
	if h := w.shaking; h != nil {
		h.release()
		defer h.acquire()
	}
	return w.Conn.Write(p)
}

// SetWriteDeadline shortens the five seconds that crypto/tls gives to
// close_notify, because Close has to end the connection at once.
func (w *wire) SetWriteDeadline(t time.Time) error {
	if limit := time.Now().Add(closeWait); w.closing.Load() && t.After(limit) {
		t = limit
	}
	return w.Conn.SetWriteDeadline(t)
}
