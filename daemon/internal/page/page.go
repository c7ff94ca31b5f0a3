// Package page serves a page that shows a running swpd, for the admin listener, and lets operators act on
// it. It is four embedded files without external resources.
//
//	GET /              the page, with /page.js, /charts.js and /page.css
//	GET /live          a stream of events (text/event-stream), each a Snapshot in JSON
//	GET /history       ?since=&most=: points of the last 24 hours, see package history
//	GET /permissions   ?identity=: the rights of an identity (swpd check --as)
//	GET /audit         ?identity=&profile=&…: the latest records of exchanges
//	/actions, /store/  see package operator; the only requests that change anything
//
// Every value is shown as text. A browser may load nothing from elsewhere, and other pages may not embed
// this one. The admin listener admits the requests, and refuses requests of other pages.
package page

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slimwire/swp/daemon/internal/history"
	"github.com/slimwire/swp/transport/endpoint"
)

//go:embed page.html page.js charts.js page.css
var files embed.FS

// Limits of viewers.
const (
	maxViewers = 8               // streams at once
	interval   = time.Second     // between snapshots, which all viewers share
	maxListed  = 500             // sessions in a snapshot
	sendWithin = 5 * time.Second // for one event; a viewer who does not read is disconnected
)

// Source is what the page shows.
type Source struct {
	// Status is the answer of /status.
	Status func() any

	// Sessions yields the open sessions of peers.
	Sessions func() iter.Seq[*endpoint.Session]

	Metrics prometheus.Gatherer

	// Permissions returns the rights of an identity under the configuration in force. It may be nil.
	Permissions func(identity string) (any, error)

	// Trail returns the directory of the audit trail, or "".
	Trail func() string

	// History has the last 24 hours of the metrics.
	History *history.Recorder

	// Desk adds /actions and /store/, see package operator.
	Desk func(mux *http.ServeMux)
}

// Page answers the requests of the page. It is safe for concurrent use.
type Page struct {
	source  Source
	viewers chan struct{}

	mu      sync.Mutex // held while a snapshot is made
	made    time.Time
	present []byte // the last snapshot as an event
}

// New returns a Page.
func New(s Source) *Page { return &Page{source: s, viewers: make(chan struct{}, maxViewers)} }

// Add adds the paths of the package comment to mux.
func (p *Page) Add(mux *http.ServeMux) {
	for path, file := range map[string]string{"/{$}": "page.html", "/page.js": "page.js", "/charts.js": "charts.js", "/page.css": "page.css"} {
		mux.HandleFunc("GET "+path, own(func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, file) }))
	}
	mux.HandleFunc("GET /live", own(p.live))
	mux.HandleFunc("GET /history", own(p.history))
	mux.HandleFunc("GET /permissions", own(p.permissions))
	mux.HandleFunc("GET /audit", own(p.audit))
	desk := http.NewServeMux()
	p.source.Desk(desk)
	for _, path := range []string{"/actions", "/actions/", "/store/"} {
		mux.HandleFunc(path, own(desk.ServeHTTP))
	}
}

// own sets the policy of the page.
func own(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		next(w, r)
	}
}

// live sends a snapshot each second.
func (p *Page) live(w http.ResponseWriter, r *http.Request) {
	select {
	case p.viewers <- struct{}{}:
		defer func() { <-p.viewers }()
	default:
		w.Header().Set("Retry-After", "5")
		http.Error(w, "the page is open as often as it can be", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		event, err := p.snapshot()
		if err == nil {
			err = out.SetWriteDeadline(time.Now().Add(sendWithin))
		}
		if err == nil {
			_, err = w.Write(event)
		}
		if err == nil {
			err = out.Flush()
		}
		if err != nil {
			return // the browser connects again
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// snapshot returns the present snapshot as an event.
func (p *Page) snapshot() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.made) >= interval*9/10 {
		text, err := json.Marshal(p.look(now))
		if err != nil {
			return nil, err
		}
		p.present, p.made = append(append([]byte("data: "), text...), "\n\n"...), now
	}
	return p.present, nil
}

// maxDrawn is the number of series of a chart that are sent, if the request does not say less.
const maxDrawn = 8

// history sends the points since a number of seconds since 1970, of the largest series of each chart.
func (p *Page) history(w http.ResponseWriter, r *http.Request) {
	var since time.Time
	most := maxDrawn
	if text := r.FormValue("since"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds < 0 {
			refuse(w, fmt.Errorf("since is %q, want seconds since 1970", text))
			return
		}
		since = time.Unix(seconds, 0)
	}
	if text := r.FormValue("most"); text != "" {
		var err error
		if most, err = strconv.Atoi(text); err != nil || most < 1 || most > history.MaxSeries {
			refuse(w, fmt.Errorf("most is %q, want the number of series of a chart, 1 to %d", text, history.MaxSeries))
			return
		}
	}
	write(w, p.source.History.View(since, most))
}

func (p *Page) permissions(w http.ResponseWriter, r *http.Request) {
	identity := r.FormValue("identity")
	switch {
	case p.source.Permissions == nil:
		refuse(w, errors.New("this program does not show permissions; use swpd check --as"))
		return
	case identity == "":
		refuse(w, errors.New("give an identity, such as spiffe://acme.example/agent"))
		return
	}
	answer, err := p.source.Permissions(identity)
	if err != nil {
		refuse(w, err)
		return
	}
	write(w, answer)
}

func refuse(w http.ResponseWriter, err error) {
	http.Error(w, strings.TrimSpace(err.Error()), http.StatusBadRequest)
}

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// searchFor limits the time of a search in the audit trail.
const searchFor = 5 * time.Second

func (p *Page) audit(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), searchFor)
	defer cancel()
	found, err := search(ctx, p.source.Trail(), r.URL.Query())
	if err != nil {
		refuse(w, err)
		return
	}
	write(w, found)
}
