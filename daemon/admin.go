package daemon

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/slimwire/swp/daemon/config"
)

// maxAdmin is how many connections the admin listener holds at once.
const maxAdmin = 64

// newAdmin returns the server of /livez, /readyz, /status, /metrics and /reload.
// It is for this machine: a request whose Host is not a loopback name is
// refused, so that no web page can read it through a name of its own, and one
// that a web page of elsewhere sends to /reload is, too. There is no profiling.
func newAdmin(d *daemon) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		v := d.health.look()
		lines, status := []string{"ready"}, http.StatusOK
		if !v.Ready {
			lines, status = v.Reasons, http.StatusServiceUnavailable
		}
		for _, warning := range v.Warnings {
			lines = append(lines, "warning: "+warning)
		}
		say(w, status, lines...)
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(d.status())
	})
	mux.HandleFunc("POST /reload", func(w http.ResponseWriter, r *http.Request) {
		result, err := d.askReload(r.Context())
		if err != nil {
			say(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(result)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(d.metrics.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 5 * time.Second}))
	return &http.Server{
		Handler:           localOnly(http.NewCrossOriginProtection().Handler(mux)),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // what scanners do is no news
	}
}

func say(w http.ResponseWriter, status int, lines ...string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	for _, line := range lines {
		_, _ = io.WriteString(w, line+"\n")
	}
}

func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if !config.Loopback(host) {
			http.Error(w, "the admin listener is for this machine: use a loopback address or localhost", http.StatusForbidden)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// capped is a listener that closes connections above a number at once.
type capped struct {
	net.Listener
	slots chan struct{}
}

func (c *capped) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case c.slots <- struct{}{}:
			return &cappedConn{Conn: conn, slots: c.slots}, nil
		default:
			_ = conn.Close()
		}
	}
}

type cappedConn struct {
	net.Conn
	slots chan struct{}
	freed sync.Once
}

func (c *cappedConn) Close() error {
	c.freed.Do(func() { <-c.slots })
	return c.Conn.Close()
}

// serveAdmin serves until ln is closed.
func serveAdmin(srv *http.Server, ln net.Listener) error {
	err := srv.Serve(&capped{Listener: ln, slots: make(chan struct{}, maxAdmin)})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
