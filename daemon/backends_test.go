package daemon

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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

// isRPC reports whether err is the RPC error of a code.
func isRPC(err error, code string) bool {
	fault, ok := errors.AsType[*rpc.Error](err)
	return ok && fault.Code == code
}
