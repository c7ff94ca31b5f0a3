package mcpstdio_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcpstdio"
	"github.com/slimwire/swp/internal/bridge/proc"
	"github.com/slimwire/swp/profiles/mcpmap"
)

// node runs children as another node does, until it leaves.
type node struct {
	program *proc.Program
	leaving context.Context
	leave   context.CancelFunc
}

func newNode(t *testing.T, mode string) *node {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := new(node)
	if n.program, err = proc.Resolve(proc.Config{Command: self, Env: []string{"SCRIPT=" + mode}, Path: os.Getenv("PATH")}); err != nil {
		t.Fatal(err)
	}
	n.leaving, n.leave = context.WithCancel(context.Background())
	t.Cleanup(n.leave)
	return n
}

// place is mcpstdio.Config.Place.
func (n *node) place([]string) (*proc.Link, func()) {
	if n.leaving.Err() != nil {
		return nil, nil
	}
	p, err := n.program.Start()
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	return &proc.Link{
		Node: "b", PID: p.PID(), Leaving: n.leaving, Streams: duplex{p.Stdout, p.Stdin}, Errors: p.Stderr,
		Stop:  func(time.Duration) { stop() },
		Wait:  func() error { return p.Wait(ctx.Done(), func() time.Duration { return 0 }) },
		Close: func() { stop(); p.Close() },
	}, nil
}

type duplex struct {
	io.Reader
	io.WriteCloser
}

func (d duplex) CloseWrite() error { return d.Close() }

func TestAChildIsReplacedBeforeItsNodeEnds(t *testing.T) {
	n := newNode(t, "modern")
	s := serve(t, "modern", mcpstdio.Config{Place: n.place})
	c := s.dial("alice")
	there := decode[int](t, c.do(modern("1", "pid", "")))
	want(t, "pid", decode[int](t, c.do(modern("2", "pid", ""))), there)
	n.leave()
	await(t, func() bool { return s.server.Stats().Children == 0 })
	if here := decode[int](t, c.do(modern("3", "pid", ""))); here == there {
		t.Error("a child that has ended answers")
	}
	for _, e := range s.all() {
		if node := map[bool]string{true: "b"}[e.PID == there]; e.Node != node || e.Err != nil {
			t.Errorf("%+v", e)
		}
	}
}

func TestAChildAnswersBeforeItsNodeEnds(t *testing.T) {
	n := newNode(t, "legacy")
	s := serve(t, "legacy", mcpstdio.Config{Place: n.place})
	c := s.dial("alice")
	session := c.initialize(mcpmap.Events{})
	in := func(id, method, text string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, quote(text))
	}
	late := `{"jsonrpc":"2.0","id":1,"result":"late"}`
	held := c.start(&mcpmap.Call{Session: session, Octets: []byte(in("1", "hold", late))})
	await(t, func() bool { return s.server.Stats().InFlight == 1 })
	n.leave()
	c.in(session, in("2", "release", ""))
	want(t, "answer", (<-held).octets, late)
	await(t, func() bool { return s.server.Stats().Children == 0 }) // the session is at rest
	c.in(c.initialize(mcpmap.Events{}), in("3", "pid", ""))
}
