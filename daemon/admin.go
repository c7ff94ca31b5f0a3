package daemon

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/entrances"
)

// toolsPatience is how long the tools of a partner are waited for: the partner starts its
// servers to list them.
const toolsPatience = 8 * time.Second

// admin is the listener for local administration, if it is configured. Until all parts are open it
// answers only that the daemon lives and starts, and names the reason for a long start.
type admin struct {
	web
	d       *daemon
	backups backups
}

// Open implements part.Part.
func (a *admin) Open() error {
	a.backups.open(a.d)
	a.handle(newAdmin(a.d))
	return nil
}

// newStarting returns the handler of the admin listener during the start.
func newStarting(h *health) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", live)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusServiceUnavailable, h.look().Reasons...)
	})
	return localOnly(mux)
}

// Retire implements part.Part: a backup ends.
func (a *admin) Retire() { a.backups.retire() }

// Close implements part.Part.
func (a *admin) Close() error {
	a.backups.retire()
	return a.web.Close()
}

// newAdmin returns the handler of /livez, /readyz, /status, /metrics, /reload, /backup and the page. It
// is for this machine only: a request whose Host is not a loopback name is refused, so that no web
// page can read it by DNS rebinding. A cross-origin request that changes something is refused, too, and
// /backup and actions without a token, see package operator.
// There is no profiling.
func newAdmin(d *daemon) http.Handler {
	mux := http.NewServeMux()
	observe(mux, &d.health, d.metrics.Registry)
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
	mux.HandleFunc("GET /partners/{name}/tools", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), toolsPatience)
		defer cancel()
		list, ok := d.partners.Directory().PinnedTools(ctx, r.PathValue("name"))
		if !ok {
			say(w, http.StatusServiceUnavailable, "not all tools of this partner can be read now: swpd status shows its link; the partner may still be starting its servers, so try again")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
	})
	mux.Handle("POST /backup", d.admin.backups.handler(d))
	addPage(mux, d)
	return localOnly(http.NewCrossOriginProtection().Handler(mux))
}

// observe adds /livez, /readyz with reasons, and /metrics.
func observe(mux *http.ServeMux, h *health, metrics prometheus.Gatherer) {
	mux.HandleFunc("GET /livez", live)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		v := h.look()
		lines, status := []string{"ready"}, http.StatusOK
		if !v.Ready {
			lines, status = v.Reasons, http.StatusServiceUnavailable
		}
		for _, warning := range v.Warnings {
			lines = append(lines, "warning: "+warning)
		}
		say(w, status, lines...)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 5 * time.Second}))
}

func live(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "alive") }

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
		next.ServeHTTP(w, r)
	})
}
