package mcpstdio_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/bridge/mcpstdio"
	"github.com/slimwire/swp/profiles/mcpmap"
	"github.com/slimwire/swp/profiles/profiletest"
)

// burst is a request with n notifications before its answer.
func burst(id string, n int, modern bool) []byte {
	version := ""
	if modern {
		version = `"io.modelcontextprotocol/protocolVersion":"2026-07-28",`
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"burst","params":{"text":"%d","_meta":{%s"progressToken":7}}}`, id, n, version)
}

// Notifications of a child reach a caller that reads them more slowly than the child writes:
// each one, in order, in both eras, over every kind of connection.
func TestABurstOfNotificationsArrivesWhole(t *testing.T) {
	const n = 6000
	overAll(t, func(t *testing.T, kind string) {
		for era, mode := range map[string]string{"modern": "modern", "session": "legacy"} {
			t.Run(era, func(t *testing.T) {
				t.Parallel()
				s := serve(t, mode, mcpstdio.Config{})
				c := s.dialOver(kind)
				call := &mcpmap.Call{Octets: burst("1", n, true)}
				if era == "session" {
					call = &mcpmap.Call{Session: c.initialize(mcpmap.Events{}), Octets: burst("1", n, false)}
				}
				got, ordered := 0, true
				call.Events.Notification = func(octets []byte) {
					ordered = ordered && string(octets) == fmt.Sprintf(burstLine, got)
					if got++; got%100 == 0 {
						time.Sleep(time.Millisecond)
					}
				}
				if out := <-c.start(call); out.err != nil {
					t.Fatal(out.err)
				}
				want(t, "notifications", got, n)
				want(t, "in order", ordered, true)
				want(t, "dropped", s.server.Stats().Dropped+s.served.Stats().Dropped, 0)
			})
		}
	})
}

// What a child says in a session beside its calls waits for the client too.
func TestABurstBesideTheCallsOfASessionArrivesWhole(t *testing.T) {
	const n = 3000 // the session keeps 256 for a client that is not there
	s := serve(t, "legacy", mcpstdio.Config{})
	c := s.dialOver("tls")
	all := make(chan struct{})
	got := 0
	session := c.initialize(mcpmap.Events{Notification: func([]byte) {
		if got++; got == n {
			close(all)
		}
	}})
	if err := c.client.Notify(t.Context(), "", session, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/burst","params":{"text":"%d"}}`, n)); err != nil {
		t.Fatal(err)
	}
	<-all
	want(t, "dropped", s.server.Stats().Dropped+s.served.Stats().Dropped, 0)
}

// A client that reads nothing holds a shared child up for a moment, once: its call ends in an
// error, and the calls of others are answered.
func TestGW09AClientThatDoesNotReadHoldsNobodyUp(t *testing.T) {
	s := serve(t, "modern", mcpstdio.Config{MaxShared: 1})
	calling := mcpmap.New(mcpmap.Options{MaxDue: 64 << 10})
	near, far := profiletest.Pair("mallory", registry(t, calling), "server", registry(t, s.served), profiletest.SessionOptions{})
	t.Cleanup(func() { near.Close(); near.Wait(); far.Wait() })
	deaf := &caller{t: t, client: calling.Client(near), far: far, hangUp: near.Close}
	other := s.dial("alice")
	for _, id := range []string{"1", "2"} {
		begun, blocked := make(chan struct{}), make(chan struct{})
		var once sync.Once
		done := deaf.start(&mcpmap.Call{Octets: burst(id, 2000, true), Events: mcpmap.Events{
			Notification: func([]byte) { once.Do(func() { close(begun) }); <-blocked },
		}})
		<-begun
		other.do(modern(`"a"`, "hex", "")) // the same child
		close(blocked)
		if out := <-done; out.err != nil || !strings.Contains(out.octets, "faster than they were read") {
			t.Errorf("the call ended with %v %s", out.err, out.octets)
		}
	}
	if s.server.Stats().Dropped == 0 {
		t.Error("the loss was not counted")
	}
}
