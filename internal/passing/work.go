package passing

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/slimwire/swp/transport"
)

// Work serves a connection over QUIC that another process has made for it: s is the first stream, and
// request describes the work. It calls answer before it uses the stream: with nil, or with why it
// refuses. ctx ends when it has to end. The connection is closed when it returns.
type Work func(ctx context.Context, conn transport.Conn, s transport.Stream, request []byte, answer func(refusal error) error)

// Work connects to a process that is to do what request describes, as JSON. It returns the
// connection and its first stream. The error is ErrRefused if the process answers so.
func (p *Passer) Work(ctx context.Context, at Place, request any) (transport.Conn, transport.Stream, error) {
	text, err := json.Marshal(request)
	if err != nil {
		return nil, nil, err
	}
	conn, s, _, err := p.dial(ctx, at, true, hello{Kind: kindWork, Request: text})
	return conn, s, err
}

// work serves a connection of Passer.Work.
func (t *Taker) work(ctx context.Context, conn transport.Conn, s transport.Stream, h *hello) error {
	var said answer
	say := func(refusal error) error {
		said = answer{OK: refusal == nil, Final: true}
		if refusal != nil {
			said.Why = refusal.Error()
		}
		return within(s, time.Now().Add(attempt), func() error { return send(s, said) })
	}
	if t.o.Work == nil || !conn.Multiplexed() {
		_ = say(errors.New("passing: no work here"))
	} else {
		t.o.Work(t.working, conn, s, h.Request, say)
	}
	if !said.OK {
		return refused(ctx, conn, s, said)
	}
	return errAsked
}

// Hold connects to a process. The context ends with the process, with the connection, or with Until of the
// place, which is required. It ends at once when a process is killed; connections over QUIC notice that after
// a minute.
func (p *Passer) Hold(ctx context.Context, at Place) (context.Context, error) {
	conn, s, _, err := p.dial(ctx, at, false, hello{Kind: kindHold})
	if err != nil {
		return nil, err
	}
	held, end := context.WithCancel(context.Background())
	go func() {
		defer end()
		hold(at.Until, conn, s)
	}()
	return held, nil
}

// hold keeps a connection until the other side ends it, or ctx ends.
func hold(ctx context.Context, conn transport.Conn, s transport.Stream) {
	defer context.AfterFunc(ctx, func() { _ = conn.Close(0) })()
	_, _ = s.Read(make([]byte, 1)) // nothing is sent
	_ = conn.Close(0)
}
