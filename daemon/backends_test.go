package daemon

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/slimwire/swp/profiles/rpc"
)

func TestBackendsServeMethodsToWhoMayCallThem(t *testing.T) {
	asked := make(chan string, 8)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path + " " + r.Header.Get("Swp-Peer")
		if r.URL.Path == "/rpc/demo.broken" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	r := start(t, fmt.Sprintf(`rpc:
  backends:
    demo: {url: '%s/rpc', methods: [demo.echo, demo.broken, demo.secret]}
access: {rules: [{identity: 'spiffe://localhost/**', profile: rpc, name: [demo.echo, demo.broken]}]}
`, server.URL))
	s := r.mustDial(r.addrs[0])
	got, err := rpc.Call(t.Context(), s.Session, "demo.echo", []byte(`{"a": 1}`))
	if err != nil || string(got) != `{"a": 1}` {
		t.Errorf("demo.echo: %s, %v", got, err)
	}
	if got := <-asked; got != "/rpc/demo.echo spiffe://localhost/swp-client" {
		t.Errorf("the backend was asked %q", got)
	}
	for _, method := range []string{"demo.secret", "demo.none"} {
		if _, err := rpc.Call(t.Context(), s.Session, method, nil); !isRPC(err, "unauthorized") {
			t.Errorf("%s: %v, want unauthorized", method, err)
		}
	}
	if n := len(asked); n != 0 {
		t.Errorf("%d denied calls reached the backend", n)
	}
	r.counts(`swpd_denials_total{profile="rpc"}`, "2")
}

func TestOP04BackendThatIsDownIsAWarning(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	url := server.URL
	server.Close() // nothing listens there now
	r := start(t, fmt.Sprintf("rpc: {backends: {demo: {url: '%s', methods: demo.echo}}}\n", url))
	s := r.mustDial(r.addrs[0])
	if _, err := rpc.Call(t.Context(), s.Session, "demo.echo", nil); !isRPC(err, "unavailable") {
		t.Errorf("%v, want unavailable", err)
	}
	if status, body := r.get("/readyz"); status != http.StatusOK || !strings.Contains(body, "warning: rpc backend demo: ") {
		t.Errorf("/readyz says %d %q", status, body)
	}
	r.counts(`swpd_rpc_backend_failures_total{backend="demo"}`, "1")
	if err := echo(t, s); err != nil {
		t.Error(err)
	}
}

// A backend comes, changes and goes while calls are under way: none of them is lost.
func TestBackendsChangeUnderTraffic(t *testing.T) {
	overTLSAndQUIC(t, func(t *testing.T, transport int) {
		held, release := make(chan struct{}, 1), make(chan struct{})
		serve := func(answer string) string {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/demo.hold" {
					held <- struct{}{}
					<-release
				}
				_, _ = io.WriteString(w, answer)
			}))
			t.Cleanup(server.Close)
			return server.URL
		}
		first, second := serve("first"), serve("second")
		r := start(t, "")
		s := r.mustDial(r.addrs[transport])
		says := func(method, want string) {
			t.Helper()
			if got, err := rpc.Call(t.Context(), s.Session, method, nil); err != nil || string(got) != want {
				t.Errorf("%s: %q, %v, want %q", method, got, err, want)
			}
		}
		none := func(method string) {
			t.Helper()
			if _, err := rpc.Call(t.Context(), s.Session, method, nil); !isRPC(err, "unknown_method") {
				t.Errorf("%s: %v, want unknown_method", method, err)
			}
		}
		reload := func(old, now string) {
			t.Helper()
			r.rewrite(old, now)
			if got := r.reloads(); len(got.Problems)+len(got.Later) > 0 || !slices.Equal(got.Changed, []string{"rpc.backends.demo"}) {
				t.Errorf("answer %+v", got)
			}
		}
		none("demo.echo")
		at := func(url string) string {
			return fmt.Sprintf("rpc: {backends: {demo: {url: '%s', methods: [demo.echo, demo.hold]}}}\n", url)
		}
		reload("access:", at(first)+"access:")
		says("demo.echo", "first")
		answer := make(chan string, 1)
		go func() {
			got, err := rpc.Call(t.Context(), s.Session, "demo.hold", nil)
			answer <- fmt.Sprint(string(got), err)
		}()
		<-held
		reload(at(first), at(second))
		says("demo.echo", "second")
		reload(at(second), "")
		none("demo.echo")
		close(release)
		if got := <-answer; got != "first<nil>" {
			t.Errorf("the call that was under way: %q", got)
		}
		if _, body := r.get("/metrics"); strings.Contains(body, `backend="demo"`) {
			t.Error("a backend that is gone is still in the metrics")
		}
	})
}

// A reload is a line of the level info, under the level that is then in force.
func TestLogLevelChangesWhileItServes(t *testing.T) {
	r := start(t, "")
	r.rewrite("access:", "log: {level: error}\naccess:")
	if got := r.reloads(); len(got.Problems)+len(got.Later) > 0 {
		t.Errorf("answer %+v", got)
	}
	r.rewrite("level: error", "level: info")
	r.reloads()
	r.awaitTimes(1, `"msg":"reloaded"`)
}

// isRPC reports whether err is the RPC error of a code.
func isRPC(err error, code string) bool {
	fault, ok := errors.AsType[*rpc.Error](err)
	return ok && fault.Code == code
}
