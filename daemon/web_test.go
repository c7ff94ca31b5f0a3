package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/internal/strangers"
)

// ask puts one request to an address over a connection, and leaves it open.
func ask(t *testing.T, conn net.Conn, line, host string) (status int, body string) {
	t.Helper()
	status, body, err := askOn(conn, line, host)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return status, body
}

func askOn(conn net.Conn, line, host string) (status int, body string, err error) {
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\n\r\n", line, host); err != nil {
		return 0, "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func dialTCP(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// A stranger who reaches health learns one word, under every Host.
func TestOP05HealthSaysOneWordToEverybody(t *testing.T) {
	t.Parallel()
	r := start(t, "health: 127.0.0.1:0\n")
	at := r.status().Probes
	for line, want := range map[string]struct {
		status int
		body   string
	}{
		"GET /livez":     {200, "alive\n"},
		"GET /readyz":    {200, "ready\n"},
		"GET /status":    {404, "404 page not found\n"},
		"GET /metrics":   {404, "404 page not found\n"},
		"GET /":          {404, "404 page not found\n"},
		"POST /reload":   {404, "404 page not found\n"},
		"POST /livez":    {405, "Method Not Allowed\n"},
		"DELETE /readyz": {405, "Method Not Allowed\n"},
	} {
		for _, host := range []string{"10.1.2.3:7781", "swpd.example.org", "localhost"} {
			if status, body := ask(t, dialTCP(t, at), line, host); status != want.status || body != want.body {
				t.Errorf("%s of %s: %d %q, want %d %q", line, host, status, body, want.status, want.body)
			}
		}
	}
	if !strings.Contains(r.log.String(), `"health":"`+at+`"`) {
		t.Errorf("the start log does not say %s:\n%s", at, r.log)
	}
}

// The answer of /readyz follows the endpoint, without reasons. It is made once a second at most.
func TestOP05ReadinessForStrangersIsAtMostASecondOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := new(counted)
		h := &health{parts: part.List{looks}}
		handler := newProbes(h)
		get := func() string {
			w := new(answer)
			r, err := http.NewRequest(http.MethodGet, "/readyz", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			handler.ServeHTTP(w, r)
			return fmt.Sprint(w.status, " ", w.String())
		}
		if got := get(); got != "503 unready\n" {
			t.Errorf("before the start: %q", got)
		}
		h.phase.Store(int32(serving))
		time.Sleep(looked - 1)
		if got := get(); got != "503 unready\n" || looks.n != 0 {
			t.Errorf("within a second: %q after %d looks, want none", got, looks.n)
		}
		time.Sleep(1)
		for range 100 {
			if got := get(); got != "200 ready\n" || looks.n != 1 {
				t.Fatalf("after a second: %q after %d looks, want 1", got, looks.n)
			}
		}
		h.phase.Store(int32(draining))
		time.Sleep(looked)
		if got := get(); got != "503 unready\n" {
			t.Errorf("while it stops: %q", got)
		}
	})
}

// counted counts how often it is asked.
type counted struct {
	part.Passive
	n int
}

func (c *counted) Look(*Health) { c.n++ }

// answer is a ResponseWriter.
type answer struct {
	strings.Builder
	status int
}

func (*answer) Header() http.Header      { return make(http.Header) }
func (a *answer) WriteHeader(status int) { a.status = status }

// Connections that say nothing keep no probe out: the one above the bound takes the place of
// the oldest.
func TestGW10StrangersKeepNoProbeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(health)
		h.phase.Store(int32(serving))
		arriving := newPipes()
		w := new(web)
		w.serve(arriving, newProbes(h), func(err error) { t.Error(err) })
		defer func() { _ = w.Close() }()
		dial := func() net.Conn {
			here, there := net.Pipe()
			arriving.next <- there
			return here
		}
		var silent []net.Conn
		for range maxWeb {
			conn := dial()
			defer func() { _ = conn.Close() }()
			if status, _ := ask(t, conn, "GET /livez", "x"); status != http.StatusOK { // it has its place
				t.Fatalf("status %d", status)
			}
			silent = append(silent, conn)
		}
		time.Sleep(strangers.Fair) // from then on the oldest connection is closed for each new one
		probe := dial()
		defer func() { _ = probe.Close() }()
		if status, body := ask(t, probe, "GET /readyz", "x"); status != http.StatusOK {
			t.Errorf("above the bound: %d %q", status, body)
		}
		if _, err := silent[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the oldest connection is still served: %v", err)
		}
		if status, _ := ask(t, silent[maxWeb-1], "GET /livez", "x"); status != http.StatusOK {
			t.Errorf("the newest one: %d", status)
		}
	})
}

// pipes is a listener on which connections of the same process arrive.
type pipes struct {
	next  chan net.Conn
	close func() // as often as one likes
}

func newPipes() *pipes {
	next := make(chan net.Conn)
	return &pipes{next, sync.OnceFunc(func() { close(next) })}
}

func (p *pipes) Accept() (net.Conn, error) {
	conn, open := <-p.next
	if !open {
		return nil, net.ErrClosed
	}
	return local{conn}, nil
}

func (p *pipes) Close() error {
	p.close()
	return nil
}

func (*pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// local is a connection of this machine.
type local struct{ net.Conn }

func (local) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// Four sources open 500 connections a second each for a while, and say nothing.
func TestGW10ABurstOfConnectionsDelaysNoProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(health)
		h.phase.Store(int32(serving))
		arriving := newPipes()
		w := &web{most: maxProbes}
		w.serve(arriving, newProbes(h), func(err error) { t.Error(err) })
		defer func() { _ = w.Close() }()
		began := time.Now()
		const burst, every = 4000, 500 * time.Microsecond
		for range burst {
			here, there := net.Pipe()
			defer func() { _ = here.Close() }()
			arriving.next <- there
			time.Sleep(every)
		}
		here, there := net.Pipe()
		defer func() { _ = here.Close() }()
		arriving.next <- there
		if status, _ := ask(t, here, "GET /readyz", "x"); status != http.StatusOK {
			t.Errorf("status %d", status)
		}
		if late := time.Since(began) - burst*every; late > 50*time.Millisecond {
			t.Errorf("the answer came %v late", late)
		}
	})
}
