package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/entrances"
	"github.com/slimwire/swp/daemon/internal/part"
)

// maxAdmin is how many connections the admin listener holds at once.
const maxAdmin = 64

// admin is the listener for local administration, if it is configured.
type admin struct {
	part.Passive
	d        *daemon
	listener net.Listener // nil: it is off
	server   *http.Server
	backups  backups
}

// Open implements part.Part.
func (a *admin) Open() error {
	configured := a.d.config.Admin
	if configured == config.AdminOff {
		return nil
	}
	ln, err := a.d.sockets.Listen(configured)
	if err != nil {
		return entrances.ListenError("admin", configured, err)
	}
	a.listener = ln
	if err := a.backups.open(a.d); err != nil {
		return errors.Join(err, ln.Close())
	}
	a.server = newAdmin(a.d)
	return nil
}

// Retire implements part.Part: a backup ends.
func (a *admin) Retire() { a.backups.retire() }

// address is the address of the listener, or "".
func (a *admin) address() string {
	if a.listener == nil {
		return ""
	}
	return a.listener.Addr().String()
}

// Serve implements part.Part.
func (a *admin) Serve(context.Context) {
	if a.listener == nil {
		return
	}
	err := a.server.Serve(entrances.NewPool(a.listener, maxAdmin, nil, nil))
	if !errors.Is(err, http.ErrServerClosed) {
		a.d.log.Error("admin listener failed", zap.Error(err))
	}
}

// Close implements part.Part.
func (a *admin) Close() error {
	if a.listener != nil {
		_ = a.server.Close()
		_ = a.listener.Close()
		a.backups.close()
	}
	return nil
}

// newAdmin returns the server of /livez, /readyz, /status, /metrics, /reload and /backup. It is for
// this machine only: a request whose Host is not a loopback name is refused, so that no web
// page can read it by DNS rebinding. A cross-origin request to /reload is refused, too, and
// /backup without the token in the data directory.
// There is no profiling.
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
		result, err := d.reloader.ask(r.Context())
		if err != nil {
			say(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(result)
	})
	mux.HandleFunc("POST /backup", d.admin.backups.serve)
	mux.Handle("GET /metrics", promhttp.HandlerFor(d.metrics.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 5 * time.Second}))
	return &http.Server{
		ConnContext:       entrances.Context,
		Handler:           localOnly(http.NewCrossOriginProtection().Handler(mux)),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // port scanners would fill the log
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
			w.Header().Set("Connection", "close")
			http.Error(w, "the admin listener is for this machine: use a loopback address or localhost", http.StatusForbidden)
			return
		}
		defer entrances.Admit(r.Context(), "")()
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}
