package mcpmap_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/e1"
	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
)

// talkative is a server that leaves each request to f.
type talkative struct{ f func(x *mcpmap.Exchange) }

func (s talkative) Do(x *mcpmap.Exchange)                                 { s.f(x) }
func (talkative) Connect(mcpmap.Counterpart) (mcpmap.Conversation, error) { return talk{}, nil }

// line is a peer of an endpoint, octet by octet.
type line struct {
	t      *testing.T
	conn   transport.Conn
	stream transport.Stream
	in     *frame.Reader
}

// lineTo connects a peer to an endpoint that serves s.
func lineTo(t *testing.T, s mcpmap.Server) *line {
	t.Helper()
	table, err := mcpmap.NewTable(map[string]mcpmap.Server{"s": s}, "")
	if err != nil {
		t.Fatal(err)
	}
	m := mcpmap.New(mcpmap.Options{Backend: table})
	t.Cleanup(m.Close)
	registry, err := profiles.NewRegistry(m.Profile())
	if err != nil {
		t.Fatal(err)
	}
	ep, err := endpoint.New(endpoint.Options{Registry: registry, Bounds: endpoint.Bounds{Write: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ep.Close() })
	here, there := transport.Pipe()
	ep.Attach(here)
	l := &line{t: t, conn: there}
	if l.stream, err = there.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.in = frame.NewReader(l.stream, frame.Options{})
	return l
}

// request sends a modern request.
func (l *line) request(id int) {
	l.t.Helper()
	env := e1.Envelope{
		Version: 1, ProfileID: mcpmap.ProfileID, MsgType: 1, MsgID: fmt.Appendf(nil, "request-%08d", id),
		Payload: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, id),
	}
	if _, err := l.stream.Write(frame.Append(nil, env.Append(nil))); err != nil {
		l.t.Fatal(err)
	}
}

// answer reads until the answer to the next request, and returns how many
// notifications came before.
func (l *line) answer() (before int, octets string) {
	l.t.Helper()
	for ; ; before++ {
		body, err := l.in.Next()
		if err != nil {
			l.t.Fatalf("after %d notifications: %v", before, err)
		}
		var env e1.Envelope
		limits := e1.Limits{}.WithDefaults()
		if err := env.Decode(body, &limits); err != nil {
			l.t.Fatal(err)
		}
		if env.MsgType == uint64(mcpmap.Response) {
			return before, string(slices.Clone(env.Payload))
		}
	}
}

// longNote is a notification of 16 KiB.
var longNote = []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"` + strings.Repeat("x", 16<<10) + `"}}`)

// What a server says faster than its client reads is dropped. The connection, and who
// else has something under way on it, stay.
func TestGW09AServerThatFloodsOneCallEndsNoConnection(t *testing.T) {
	const notes = 1500 // 24 MiB, more than may be queued
	flooded := make(chan struct{})
	l := lineTo(t, talkative{func(x *mcpmap.Exchange) {
		if x.Key() != mcpmap.TokenKey([]byte("1")) {
			x.Finish([]byte(`{"jsonrpc":"2.0","id":2,"result":{}}`))
			return
		}
		go func() {
			for range notes {
				x.Notify(longNote)
			}
			x.Finish([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
			close(flooded)
		}()
	}})
	l.request(1)
	<-flooded // nothing of it has been read
	l.request(2)
	n, answer := l.answer()
	if answer != `{"jsonrpc":"2.0","id":1,"result":{}}` || n == 0 || n == notes {
		t.Errorf("%d of %d notifications, then %s", n, notes, answer)
	}
	if n, answer = l.answer(); n != 0 || answer != `{"jsonrpc":"2.0","id":2,"result":{}}` {
		t.Errorf("%d notifications, then %s", n, answer)
	}
}

// Who waits with Pace loses nothing.
func TestAServerThatWaitsForItsClientLosesNothing(t *testing.T) {
	const notes = 1500
	l := lineTo(t, talkative{func(x *mcpmap.Exchange) {
		go func() {
			for range notes {
				x.Pace(t.Context())
				x.Notify(longNote)
			}
			x.Finish([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
		}()
	}})
	l.request(1)
	if n, answer := l.answer(); n != notes || answer != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("%d of %d notifications, then %s", n, notes, answer)
	}
}
