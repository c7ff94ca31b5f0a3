package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/entrances"
	"github.com/slimwire/swp/profiles"
)

// toolsPatience is how long the tools of a partner are waited for: the partner starts its
// servers to list them.
const toolsPatience = profiles.PageWait

// claimPatience is how long the data of an identity, or names, are searched.
const claimPatience = 10 * time.Second

// admin is the listener for local administration, if it is configured, with a socket in the data directory for
// commands. Until all parts are open it answers only that the daemon lives and starts, and names the
// reason for a long start.
type admin struct {
	web
	socket    web // not if the listener is a Unix socket itself
	admission *admission
	d         *daemon
	backups   backups
}

func newAdminPart(d *daemon) *admin {
	a := &admin{d: d}
	a.admission = newAdmission(func(r *http.Request) bool { return d.desk != nil && d.desk.Knows(r) })
	a.serves(newStarting(&d.health))
	return a
}

// start opens the address of the configuration, and the socket.
func (a *admin) start() error {
	address := a.d.config.Admin.Address
	handler := localOnly(a.admission)
	if _, unix := config.UnixSocket(address); unix {
		handler = localOnly(a.admission.local())
	}
	if err := a.open(a.d, "admin", address, handler); err != nil {
		return err
	}
	_ = a.listen() // Open tries again: a process that used the data directory may be about to end
	return nil
}

// listen opens the socket, if it is not open.
func (a *admin) listen() error {
	path := a.d.config.AdminSocket()
	if _, unix := config.UnixSocket(a.d.config.Admin.Address); path == "" || unix || a.socket.listener != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	ln, err := entrances.ListenPrivate(path)
	if err != nil {
		return err
	}
	a.socket.serve(ln, localOnly(a.admission.local()), func(err error) { a.d.log.Error("listener of the socket in the data directory failed", zap.Error(err)) })
	return nil
}

// serves replaces the paths.
func (a *admin) serves(p *paths) { a.admission.paths.Store(p) }

// Open implements part.Part.
func (a *admin) Open() error {
	a.backups.open(a.d)
	a.serves(newAdmin(a.d))
	if err := a.listen(); err != nil {
		a.d.log.Warn("commands cannot ask this swpd, because it has no socket in the data directory", zap.Error(err))
	}
	return nil
}

// newStarting returns the paths during the start.
func newStarting(h *health) *paths {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", live)
	wait := func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusServiceUnavailable, h.look().Reasons...)
	}
	mux.HandleFunc("/", wait)
	return &paths{open: mux, inner: http.HandlerFunc(wait)}
}

// Retire implements part.Part: a backup ends.
func (a *admin) Retire() { a.backups.retire() }

// Close implements part.Part.
func (a *admin) Close() error {
	a.backups.retire()
	return errors.Join(a.web.Close(), a.socket.Close())
}

// newAdmin returns the paths of the admin listener. There is no profiling.
func newAdmin(d *daemon) *paths {
	open, mux := http.NewServeMux(), http.NewServeMux()
	observe(open, &d.health, (*Health).Open, d.metrics.Registry)
	mux.HandleFunc("POST /session", func(w http.ResponseWriter, _ *http.Request) {
		at := d.admin.address()
		if _, unix := config.UnixSocket(at); unix {
			say(w, http.StatusConflict, "admin is a Unix socket, which no browser opens: set it to a loopback address such as 127.0.0.1:7780 for the page")
			return
		}
		to, ok := d.admin.admission.invite(at)
		if !ok {
			say(w, http.StatusServiceUnavailable, "eight addresses of the page were not opened yet; try again in a minute")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(to)
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
	mux.HandleFunc("GET /partners/{name}/tools", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), toolsPatience)
		defer cancel()
		list, ok := d.partners.Directory().PinnedTools(ctx, r.PathValue("name"))
		if !ok {
			say(w, http.StatusServiceUnavailable, "the tools of this partner cannot be read now: swpd status shows its link; the partner may still be starting its servers, so try again")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
	})
	mux.HandleFunc("GET /claim", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), claimPatience)
		defer cancel()
		claim, err := d.state.Claim(ctx, r.URL.Query().Get("identity"))
		if err != nil {
			say(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(claim)
	})
	mux.HandleFunc("GET /names", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), claimPatience)
		defer cancel()
		found := make(map[string]map[string][]string)
		for _, prefix := range r.URL.Query()["prefix"] {
			names, err := d.state.Named(ctx, prefix)
			if err != nil {
				say(w, http.StatusServiceUnavailable, err.Error())
				return
			}
			found[prefix] = names
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(found)
	})
	mux.Handle("POST /backup", d.admin.backups.handler(d))
	addPage(mux, d)
	return &paths{open: open, inner: http.NewCrossOriginProtection().Handler(mux)}
}

// observe adds /livez, /readyz with reasons and the given warnings, and /metrics.
func observe(mux *http.ServeMux, h *health, warnings func(*Health) []string, metrics prometheus.Gatherer) {
	mux.HandleFunc("GET /livez", live)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		v := h.look()
		lines, status := []string{"ready"}, http.StatusOK
		if !v.Ready {
			lines, status = v.Reasons, http.StatusServiceUnavailable
		}
		for _, warning := range warnings(&v) {
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
