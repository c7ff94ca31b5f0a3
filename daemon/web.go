package daemon

import (
	"cmp"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/entrances"
	"github.com/slimwire/swp/daemon/internal/part"
	"github.com/slimwire/swp/profiles"
)

// Connections that a web holds at once. Probes have more places than four sources open connections in
// strangers.Fair, at 500 a second each: a connection that arrives at full places waits until the oldest has
// had strangers.Least, and can be refused until it has had strangers.Fair.
const (
	maxWeb    = 64
	maxProbes = 2560
)

// web is an HTTP listener for requests without credentials. It answers as soon as the daemon starts.
type web struct {
	part.Passive
	most     int          // connections at once; 0: maxWeb
	listener net.Listener // nil: it is off
	server   *http.Server
	handler  atomic.Pointer[http.Handler]
	done     chan struct{} // closed at the end of the server
}

// open opens the address of a key, unless it is off, and serves it.
func (w *web) open(d *daemon, key, address string, handler http.Handler) error {
	if address == config.AdminOff {
		return nil
	}
	ln, err := d.sockets.Listen(address)
	if err != nil {
		return entrances.ListenError(key, address, err)
	}
	w.serve(ln, handler, func(err error) { d.log.Error("listener of "+key+" failed", zap.Error(err)) })
	return nil
}

// serve serves a listener until Close. It does not wait.
func (w *web) serve(ln net.Listener, handler http.Handler, failed func(error)) {
	w.handle(handler)
	w.listener, w.done = ln, make(chan struct{})
	w.server = newWeb(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) { (*w.handler.Load()).ServeHTTP(to, r) }))
	go func() {
		defer close(w.done)
		if err := w.server.Serve(entrances.NewPool(ln, cmp.Or(w.most, maxWeb), nil, nil)); !errors.Is(err, http.ErrServerClosed) {
			failed(err)
		}
	}()
}

// handle replaces the handler.
func (w *web) handle(handler http.Handler) { w.handler.Store(&handler) }

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
		WriteTimeout:      profiles.AnswerWait,
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

// Close implements part.Part.
func (w *web) Close() error {
	if w.listener != nil {
		_ = w.server.Close()
		_ = w.listener.Close()
		<-w.done
	}
	return nil
}

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
