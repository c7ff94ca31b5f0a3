package daemon

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/spiffe/spiffetest"
	"github.com/slimwire/swp/transport/transporttest"
)

// A start can take long: for a migration, for the Workload API, or until another node leaves. A probe
// must not find a closed port during that time.
func TestProbesAreAnsweredDuringTheStart(t *testing.T) {
	t.Parallel()
	agent := spiffetest.NewAgent(t)
	agent.Give(nil, spiffetest.SVID{ID: ownSVID, Authority: transporttest.NewCA(t)})
	agent.Stop()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	passed, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	at, socket := ln.Addr().String(), filepath.Join(t.TempDir(), "admin")
	seen := make(chan map[string]string, 1)
	go func() {
		defer agent.Start()
		answers := make(map[string]string)
		for _, ask := range []struct{ network, address, line string }{
			{"tcp", at, "GET /livez"}, {"tcp", at, "GET /readyz"},
			{"unix", socket, "GET /livez"}, {"unix", socket, "GET /readyz"}, {"unix", socket, "GET /status"}, {"unix", socket, "POST /reload"},
		} {
			conn, err := net.DialTimeout(ask.network, ask.address, patience)
			for end := time.Now().Add(patience); err != nil && time.Now().Before(end); { // the socket is made by the start
				conn, err = net.DialTimeout(ask.network, ask.address, patience)
			}
			if err != nil {
				answers[ask.network+" "+ask.line] = err.Error()
				continue
			}
			status, body, err := askOn(conn, ask.line, "localhost")
			answers[ask.network+" "+ask.line] = fmt.Sprint(status, " ", body, err)
			_ = conn.Close()
		}
		seen <- answers
	}()
	startIn(t, t.TempDir(), fmt.Sprintf("identity: {spiffe: %q}\nhealth: %s\n", agent.Address(), at), func(o *Options) {
		o.Sockets = []*os.File{passed}
		o.Config.Admin.Address = "unix:" + socket
	})
	got := <-seen
	for ask, want := range map[string]string{
		"tcp GET /livez": "200 alive\n<nil>", "tcp GET /readyz": "503 unready\n<nil>",
		"unix GET /livez": "200 alive\n<nil>", "unix GET /readyz": "503 starting\n<nil>", "unix GET /status": "503 starting\n<nil>", "unix POST /reload": "503 starting\n<nil>",
	} {
		if got[ask] != want {
			t.Errorf("%s: %q, want %q", ask, got[ask], want)
		}
	}
}
