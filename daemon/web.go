package daemon

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/entrances"
	"github.com/slimwire/swp/daemon/internal/part"
)

// maxWeb is how many connections a web holds at once.
const maxWeb = 64

// web is an HTTP listener for requests without credentials.
type web struct {
	part.Passive
	key      string // of its address in the configuration
	log      *zap.Logger
	listener net.Listener // nil: it is off
	server   *http.Server
}

// open opens the address of a key, unless it is off.
func (w *web) open(d *daemon, key, address string, handler http.Handler) error {
	if address == config.AdminOff {
		return nil
	}
	ln, err := d.sockets.Listen(address)
	if err != nil {
		return entrances.ListenError(key, address, err)
	}
	w.key, w.log, w.listener, w.server = key, d.log, ln, newWeb(handler)
	return nil
}

func newWeb(handler http.Handler) *http.Server {
	return &http.Server{
		ConnContext: entrances.Context,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			handler.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // port scanners would fill the log
	}
}

// address is the address of the listener, host:port or unix:PATH, or "".
func (w *web) address() string {
	if w.listener == nil {
		return ""
	}
	at := w.listener.Addr()
	if at.Network() == "unix" {
		return "unix:" + at.String()
	}
	return at.String()
}

// Serve implements part.Part.
func (w *web) Serve(context.Context) {
	if w.listener == nil {
		return
	}
	err := w.server.Serve(entrances.NewPool(w.listener, maxWeb, nil, nil))
	if !errors.Is(err, http.ErrServerClosed) {
		w.log.Error("listener of "+w.key+" failed", zap.Error(err))
	}
}

// Close implements part.Part.
func (w *web) Close() error {
	if w.listener != nil {
		_ = w.server.Close()
		_ = w.listener.Close()
	}
	return nil
}

// probes is the listener for probes from other machines, if it is configured.
type probes struct {
	web
	d *daemon
}

// Open implements part.Part.
func (p *probes) Open() error { return p.open(p.d, "health", p.d.config.Health, newProbes(p.d.health)) }

// looked is the greatest age of an answer to a probe. Strangers can ask as often as they like.
const looked = time.Second

// newProbes returns the handler of /livez and /readyz, which answer one word without credentials.
func newProbes(h *health) http.Handler {
	var (
		mu   sync.Mutex
		last time.Time
		well bool
	)
	ready := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); last.IsZero() || now.Sub(last) >= looked {
			well, last = h.look().Ready, now
		}
		return well
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", live)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if ready() {
			say(w, http.StatusOK, "ready")
		} else {
			say(w, http.StatusServiceUnavailable, "unready")
		}
	})
	return mux
}
