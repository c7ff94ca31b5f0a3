package sdlfront

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/sdl"
)

// upgrades reports whether a request wants a WebSocket.
func upgrades(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// connect serves a WebSocket until either end closes it. Package gate has checked Host and Origin.
func (f *handler) connect(w http.ResponseWriter, r *http.Request) {
	caller, out := f.Caller(r), response{f: f.Front, w: w, form: sdl.JSON}
	if !f.opts.Served(caller) {
		out.send(http.StatusForbidden, f.refusal(sdl.JSON, errNobody))
		return
	}
	leave, ok := f.enter(caller)
	if !ok {
		out.refuse(errBusy)
		return
	}
	defer leave()
	taken := &taking{ResponseWriter: w}
	conn, err := websocket.Accept(taken, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // of the origin, which package gate has checked by http.origins
		OnPingReceived:     func(context.Context, []byte) bool { return f.admit(caller) },
	})
	if err != nil { // it is answered
		return
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1) // see read
	_ = f.serve(r.Context(), &messages{f: f.Front, caller: caller, conn: conn, under: taken.conn}, caller)
}

// taking is a ResponseWriter that remembers the connection under a WebSocket.
type taking struct {
	http.ResponseWriter
	conn net.Conn
}

// Hijack implements http.Hijacker.
func (t *taking) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(t.ResponseWriter).Hijack()
	t.conn = conn
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
		t.conn = secured.NetConn() // whose Close does not wait for the caller
	}
	return conn, rw, err
}

// messages is the wire of a WebSocket: a message is an envelope, of either type in and binary out.
type messages struct {
	f      *Front
	caller string
	conn   *websocket.Conn
	under  net.Conn // whose deadlines end a read without the end of the connection
}

func (w *messages) read(ctx context.Context, held *memory.Hold) ([]byte, error) {
	defer context.AfterFunc(ctx, func() { _ = w.under.SetReadDeadline(time.Now()) })()
	_ = w.under.SetReadDeadline(time.Time{}) // the caller may be silent between two envelopes
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	_, r, err := w.conn.Reader(context.Background()) // a context would close the connection
	if err != nil {
		return nil, ended(err)
	}
	most, above := w.f.most(w.caller)
	deadline := time.Now().Add(w.f.opts.takes(most))
	_ = w.under.SetReadDeadline(deadline)
	body, err := held.ReadAll(ctx, memory.Body{
		Reader: io.LimitReader(r, most+1), Announced: -1, Twice: true, Conn: w.under,
		Waited: func(d time.Duration) { _ = w.under.SetReadDeadline(deadline.Add(d)) },
	})
	switch {
	case errors.Is(err, memory.ErrFull):
		return nil, errBusy
	case err != nil:
		return nil, late(err)
	case int64(len(body)) > most:
		return nil, above
	}
	return body, nil
}

// ended converts the error of a connection that its caller has closed.
func ended(err error) error {
	switch websocket.CloseStatus(err) {
	case websocket.StatusNormalClosure, websocket.StatusGoingAway, websocket.StatusNoStatusRcvd:
		return io.EOF
	}
	return err
}

func (w *messages) write(octets []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), w.f.opts.Write)
	defer cancel()
	return w.conn.Write(ctx, websocket.MessageBinary, octets)
}

func (w *messages) leave() {
	_ = w.under.SetReadDeadline(time.Time{}) // for the answer of the caller, which the package waits for 5 s
	_ = w.conn.Close(websocket.StatusGoingAway, "")
}

func (w *messages) close() { _ = w.under.Close() }
