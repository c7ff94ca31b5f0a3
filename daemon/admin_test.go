package daemon

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/strangers"
)

func TestOP05AdminListenerIsForThisMachine(t *testing.T) {
	r := start(t, "")
	const open = 200
	for host, want := range map[string]int{
		"127.0.0.1:7780": 200, "localhost": 200, "[::1]:80": 200, "127.0.0.1": 200,
		"example.com": 403, "example.com:7780": 403, "192.0.2.1": 403, "localhost.example.com": 403, "127.0.0.1.example.com": 403,
	} {
		for _, path := range []string{"/livez", "/readyz", "/status", "/metrics"} {
			conn, err := net.Dial("tcp", strings.TrimPrefix(r.admin, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, host)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			_ = conn.Close()
			if path == "/status" && want == open {
				if resp.StatusCode != http.StatusUnauthorized {
					t.Errorf("Host %q, %s without a credential: status %d, want 401", host, path, resp.StatusCode)
				}
				continue
			}
			if resp.StatusCode != want {
				t.Errorf("Host %q, %s: status %d, want %d", host, path, resp.StatusCode, want)
			}
		}
	}
}

func TestOP05AdminListenerBoundsWhatAPeerMayDo(t *testing.T) {
	r := start(t, "")
	if status, _ := r.get("/debug/pprof/"); status != 404 {
		t.Errorf("profiling answers %d, want 404", status)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.admin, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n", strings.Repeat("x", 64<<10)); err != nil {
		t.Logf("write: %v", err) // the server may hang up first
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("64 KiB of headers: status %d, want 431", resp.StatusCode)
		}
	}
	srv := newWeb(nil)
	if srv.ReadHeaderTimeout <= 0 || srv.ReadHeaderTimeout > 10*time.Second || srv.WriteTimeout <= 0 || srv.IdleTimeout <= 0 {
		t.Errorf("deadlines %v, %v, %v", srv.ReadHeaderTimeout, srv.WriteTimeout, srv.IdleTimeout)
	}
}

func TestAdminListenerHoldsABoundedNumberOfConnections(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	for range maxWeb {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.admin, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
		// An answer shows that the connection has its slot.
		if _, err := fmt.Fprint(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	extra, err := net.Dial("tcp", strings.TrimPrefix(r.admin, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = extra.Close() }()
	_ = extra.SetReadDeadline(time.Now().Add(patience))
	if n, err := extra.Read(make([]byte, 1)); err == nil || n > 0 {
		t.Error("one connection above the bound was served")
	} else if timeout, ok := err.(net.Error); ok && timeout.Timeout() { //nolint:errorlint // net.Conn returns it as it is
		t.Error("one connection above the bound was held")
	}
}

func TestLivezAndReadyz(t *testing.T) {
	r := start(t, "")
	for path, want := range map[string]string{"/livez": "alive\n", "/readyz": "ready\n"} {
		if status, body := r.get(path); status != 200 || body != want {
			t.Errorf("%s: %d %q, want 200 %q", path, status, body, want)
		}
	}
}

// A stranger needs no credentials to open a connection and send half a request.
func TestGW10ConnectionsOfStrangersKeepNobodyOut(t *testing.T) {
	t.Parallel()
	const atFront, atAdmin = 4096, 64
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur < 2*(atFront+atAdmin)+1000 {
		t.Skipf("this needs about 10,000 open files: %+v, %v", files, err)
	}
	d := open(t, "a", ruleAll+httpYAML+modernYAML(t))
	front := d.front()
	for _, at := range []struct {
		url  string
		most int
	}{{front, atFront}, {d.admin, atAdmin}} {
		address := strings.TrimPrefix(at.url, "http://")
		var dialer net.Dialer
		for range at.most {
			c, err := dialer.DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			if _, err := c.Write([]byte("GET / HTTP/1.1\r\n")); err != nil {
				t.Fatal(err)
			}
		}
	}
	time.Sleep(strangers.Fair) // from then on the oldest connection is closed for each new one
	if status, _ := d.get("/livez"); status != http.StatusOK {
		t.Errorf("/livez: %d", status)
	}
	if status, _, got := post(t, front+"/mcp/modern", modernCall, modernHeaders...); status != http.StatusOK {
		t.Errorf("a call: %d %s", status, got)
	}
}
