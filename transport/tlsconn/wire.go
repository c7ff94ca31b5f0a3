package tlsconn

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/transport"
)

// maxHandshake is how many octets a peer may send during its handshake. It admits
// certificates of 32 KiB, but not a certificate message of 256 KiB, which crypto/tls would
// accept.
const maxHandshake = 64 << 10

// closeWait is how long Close waits for a peer that does not read.
const closeWait = 250 * time.Millisecond

var (
	errHandshakeSize = errors.New("tlsconn: more than 65536 octets before the end of the handshake")

	// errCut replaces io.EOF for crypto/tls, which would report io.EOF as if it had
	// received close_notify.
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
	said    bool // the final alert was sent: later writes of crypto/tls are dropped
}

// alertNoApplicationProtocol is the number of an alert of TLS.
const alertNoApplicationProtocol = 120

// alert ends a handshake with a fatal alert in place of the one that crypto/tls would send.
// The handshake is not encrypted yet.
func (w *wire) alert(number byte) {
	_, _ = w.Write([]byte{recordAlert, 3, 3, 0, 2, 2, number})
	w.said = true
}

// handshake is the state of a wire while its handshake runs.
type handshake struct {
	slots chan struct{} // nil for a dialler
	read  int

	// The record that is being received, or was last.
	record [headLen + alertLen]byte // its header and what can be an alert
	got    int                      // octets of it
	whole  int                      // octets that it will have, once its header is here
}

// Lengths of the header of a record, and of an alert that is not encrypted.
const (
	headLen  = 5
	alertLen = 2
)

// recordAlert is the type of a record with an alert. Encrypted records have another one.
const recordAlert = 21

// follow takes note of octets of the peer.
func (h *handshake) follow(p []byte) {
	for len(p) > 0 {
		if h.got > 0 && h.got == h.whole {
			h.got = 0
		}
		most := headLen - h.got
		if h.got >= headLen {
			most = h.whole - h.got
		}
		n := min(most, len(p))
		if h.got < len(h.record) {
			copy(h.record[h.got:], p[:n])
		}
		h.got += n
		p = p[n:]
		if h.got == headLen {
			h.whole = headLen + int(binary.BigEndian.Uint16(h.record[3:]))
		}
	}
}

// clearAlert returns the alert with which the peer ended the handshake, if the last record
// of the peer is an alert that is not encrypted. OpenSSL sends those until its side of the
// handshake is complete; crypto/tls decrypts them in vain, and reports a bad record.
func (h *handshake) clearAlert() (alert transport.RemoteAlert, ok bool) {
	ok = h.got == len(h.record) && h.whole == h.got && h.record[0] == recordAlert
	return transport.RemoteAlert(h.record[headLen+1]), ok
}

// acquire and release bound how many handshakes compute at once. A slot is never held while
// waiting for the peer: otherwise 500 silent peers would delay a good one until they time
// out.
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
	h.follow(p[:n])
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
