package daemon

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slimwire/swp/daemon/config"
	"github.com/slimwire/swp/daemon/internal/entrances"
)

// Bounds of sessions of the page.
const (
	maxTickets  = 8                // one-use addresses that are not used yet
	ticketFor   = time.Minute      // a one-use address is valid
	maxSessions = 32               // the one that was used least recently gives way
	sessionFor  = 12 * time.Hour   // a session lasts
	sessionIdle = 30 * time.Minute // without a request
)

// admission admits requests to the admin listener. The paths in open answer every program of this
// machine, without names of callers, ids and data. All other paths need
//
//   - the Unix socket in the data directory, which only accounts with its permissions can use,
//   - or the token of an operator, or the one in the data directory,
//   - or a session of the page: POST /session with one of them returns its address.
//
// A request of another web page is refused on each path, so that it starts nothing.
type admission struct {
	paths  atomic.Pointer[paths]
	knows  func(*http.Request) bool // the request has the token of an operator
	cookie string
	now    func() time.Time

	mu       sync.Mutex
	tickets  map[string]time.Time // the ends of one-use addresses
	sessions map[string]*viewing
}

// paths serve the admin listener.
type paths struct {
	open  http.Handler // GET /livez, /readyz and /metrics
	inner http.Handler // everything else
}

// viewing is a session of the page.
type viewing struct{ ends, used time.Time }

func newAdmission(knows func(*http.Request) bool) *admission {
	return &admission{
		knows: knows, now: time.Now,
		cookie:  "swpd-" + rand.Text()[:8], // cookies of a host are those of all its ports
		tickets: make(map[string]time.Time), sessions: make(map[string]*viewing),
	}
}

// unguarded are the paths of admission.open.
var unguarded = map[string]bool{"/livez": true, "/readyz": true, "/metrics": true}

// pathOpen takes a one-use address.
const pathOpen = "/open"

// ServeHTTP serves the loopback address.
func (a *admission) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to := a.paths.Load()
	switch {
	case ofAnotherPage(r):
		refuseOrigin(w)
	case unguarded[r.URL.Path]:
		to.open.ServeHTTP(w, r)
	case r.URL.Path == pathOpen && r.Method == http.MethodGet:
		a.begin(w, r)
	case a.knows(r) || a.current(r):
		to.inner.ServeHTTP(w, r)
	default:
		w.Header().Set("WWW-Authenticate", `Bearer realm="swpd"`)
		http.Error(w, "this address needs a session or a token: for the page open the address that swpd page prints; commands use the socket in the data directory, or --token-file", http.StatusUnauthorized)
	}
}

// local serves the socket: its permissions are the admission.
func (a *admission) local() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := a.paths.Load()
		switch {
		case ofAnotherPage(r):
			refuseOrigin(w)
		case unguarded[r.URL.Path]:
			to.open.ServeHTTP(w, r)
		default:
			to.inner.ServeHTTP(w, r)
		}
	})
}

// ofAnotherPage reports whether a page of another origin has made a request: also one at another port of this
// machine, which is of the same site.
func ofAnotherPage(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Scheme != "http" || u.Host != r.Host
}

func refuseOrigin(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	http.Error(w, "this is a cross-origin request: a page of another origin may not use this address", http.StatusForbidden)
}

// PageAddress is the answer of POST /session: the path of a one-use address, and where the page is.
type PageAddress struct {
	Path    string `json:"path"`
	Address string `json:"address"` // host:port
}

// invite makes a one-use address.
func (a *admission) invite(at string) (*PageAddress, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	for ticket, ends := range a.tickets {
		if !now.Before(ends) {
			delete(a.tickets, ticket)
		}
	}
	if len(a.tickets) >= maxTickets {
		return nil, false
	}
	ticket := rand.Text()
	a.tickets[ticket] = now.Add(ticketFor)
	return &PageAddress{Path: pathOpen + "?once=" + ticket, Address: at}, true
}

// begin takes a one-use address, and begins a session.
func (a *admission) begin(w http.ResponseWriter, r *http.Request) {
	key, ok := a.exchange(r.FormValue("once"))
	if !ok {
		http.Error(w, "this address was used already, or is older than a minute: swpd page prints another one", http.StatusForbidden)
		return
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // not Secure, because the page is served over HTTP on loopback
		Name: a.cookie, Value: key, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(sessionFor.Seconds()),
	})
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (a *admission) exchange(ticket string) (key string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	ends, ok := a.tickets[ticket]
	delete(a.tickets, ticket)
	if !ok || !now.Before(ends) {
		return "", false
	}
	var oldest string
	for key, s := range a.sessions {
		if s.over(now) {
			delete(a.sessions, key)
		} else if oldest == "" || s.used.Before(a.sessions[oldest].used) {
			oldest = key
		}
	}
	if len(a.sessions) >= maxSessions {
		delete(a.sessions, oldest)
	}
	key = rand.Text()
	a.sessions[key] = &viewing{ends: now.Add(sessionFor), used: now}
	return key, true
}

func (s *viewing) over(now time.Time) bool {
	return !now.Before(s.ends) || now.Sub(s.used) >= sessionIdle
}

// current reports whether a request is of a session, which is used by it.
func (a *admission) current(r *http.Request) bool {
	cookie, err := r.Cookie(a.cookie)
	if err != nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	for key, s := range a.sessions {
		if subtle.ConstantTimeCompare([]byte(key), []byte(cookie.Value)) == 1 && !s.over(now) {
			s.used = now
			return true
		}
	}
	return false
}

// localOnly refuses requests with a Host that is not a loopback name, so that no web page can read this
// address by DNS rebinding.
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
