package daemon

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slimwire/swp/internal/effort"
)

// announce begins a POST with a body of size octets, and sends part of it.
func announce(t *testing.T, front, path string, size, part int, headers ...string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(front, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"%s\r\nContent-Length: %d\r\n\r\n", path, strings.Join(headers, "\r\n"), size)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = conn.Write(make([]byte, part)) }()
	return conn
}

// inFlight is the octets of the budget in use.
func (r *running) inFlight() int {
	r.t.Helper()
	n, err := strconv.ParseFloat(r.metric("swpd_in_flight_bytes"), 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return int(n)
}

// awaitInFlight waits until the octets in use are as described.
func (r *running) awaitInFlight(what string, ok func(int) bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); !ok(r.inFlight()); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%d octets are in use, want %s", r.inFlight(), what)
		}
	}
}

// One caller sends many bodies, each short of an octet. They are in the budget, and another
// caller is served.
func TestRS11BodiesOverHTTPAreInTheBudget(t *testing.T) {
	effort.Unwatched(t)
	const budget, size = 8 << 20, 1 << 20
	for _, path := range []string{"/mcp", "/a2a/x"} {
		t.Run(path[1:4], func(t *testing.T) {
			d := open(t, "a", httpYAML+modernYAML(t)+"access: {rules: [{identity: '**'}]}\nlimits: {in_flight_bytes: 8MiB}\n")
			var conns []net.Conn
			for range 16 {
				conns = append(conns, announce(t, d.front(), path, size, size-1, "Authorization: Bearer secret-a"))
			}
			d.awaitInFlight("half of the budget", func(n int) bool { return n >= budget/2 })
			if used := d.inFlight(); used > budget {
				t.Errorf("%d octets are in use, want %d at most", used, budget)
			}
			_, body := d.get("/status")
			if !strings.Contains(body, `"most":[{"identity":"http:alice","octets":`) {
				t.Errorf("the status names another identity: %s", body)
			}
			if status, _, got := post(t, d.front()+"/mcp", modernCall, modernHeaders...); status != 200 || !strings.Contains(got, sayTool) {
				t.Errorf("another caller: %d %s", status, got)
			}
			for _, conn := range conns {
				_ = conn.Close()
			}
			http.DefaultClient.CloseIdleConnections() // an idle one is counted
			d.awaitInFlight("nothing", func(n int) bool { return n == 0 })
		})
	}
}

// A caller without a rule sends nothing but the head of a request with a large body.
func TestRS11LargeBodiesOfCallersWithoutRulesAreNotRead(t *testing.T) {
	t.Parallel()
	d := open(t, "a", httpYAML+modernYAML(t)+"access: {rules: [{identity: 'http:alice', profile: rpc}]}\n")
	for _, path := range []string{"/mcp", "/a2a/x"} {
		conn := announce(t, d.front(), path, 1<<20, 0, "Authorization: Bearer secret-a")
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		octets, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d %s, want 403", path, resp.StatusCode, octets)
		}
		d.await(`"msg":"denied","err_code":"ERR_SECURITY_POLICY","peer":"http:alice","profile":"` + path[1:4] + `"`)
	}
}
