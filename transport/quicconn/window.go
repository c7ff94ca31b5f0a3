package quicconn

import (
	"context"
	"sync"

	"github.com/quic-go/quic-go"
)

// windows is the budget for the growth of the receive windows of all connections of a
// listener. Unread data of a peer occupies memory here. A window that cannot grow only
// makes its connection slower.
type windows struct {
	mu    sync.Mutex
	limit uint64 // octets
	used  uint64
	of    map[*quic.Conn]uint64
}

// grow is quic.Config.AllowConnectionWindowIncrease. It calls no method of the connection
// that could wait for grow itself.
func (w *windows) grow(conn *quic.Conn, delta uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.used+delta > w.limit {
		return false
	}
	if w.of == nil {
		w.of = make(map[*quic.Conn]uint64)
	}
	if _, known := w.of[conn]; !known {
		context.AfterFunc(conn.Context(), func() { w.release(conn) })
	}
	w.of[conn] += delta
	w.used += delta
	return true
}

func (w *windows) release(conn *quic.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used -= w.of[conn]
	delete(w.of, conn)
}
